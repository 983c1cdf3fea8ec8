"""Byte-level byte-pair encoding with one vocabulary for both languages, trained on the training text."""

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

BYTES = 256
PAD, BEGIN, END = 0, 1, 2
"""Special tokens: padding, start of a sentence, end of a sentence."""


def train_tokenizer(texts: Iterable[str], size: int) -> Tokenizer:
    """Train a tokenizer with at most ``size`` tokens, of which 259 are the single bytes and the special tokens.

    The same texts give the same tokenizer.

    Example:
        >>> tokenizer = train_tokenizer(["one two", "eins zwei"] * 10, size=270)
        >>> tokenizer.decode(tokenizer.encode("zwei one").ids)
        'zwei one'
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<pad>", "<begin>", "<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the tokens of each text, followed by ``END``."""
    tokenizer.encode_special_tokens = True  # treat "<pad>" in a text as plain text
    return [[*encoding.ids, END] for encoding in tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def decode(tokenizer: Tokenizer, rows: Iterable[Sequence[int]]) -> list[str]:
    """Return the text of each row of tokens, up to its ``END``."""
    rows = [list(map(int, row)) for row in rows]
    return [tokenizer.decode(row[: row.index(END)] if END in row else row) for row in rows]
