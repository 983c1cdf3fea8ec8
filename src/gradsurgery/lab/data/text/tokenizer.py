"""Words in parts: byte-pair encoding over bytes, one vocabulary for both languages, learned from the training text."""

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

BYTES = 256
PAD, BEGIN, END = 0, 1, 2
"""Tokens that are no text: what fills up a sentence, and what stands before and behind it."""


def train_tokenizer(texts: Iterable[str], size: int) -> Tokenizer:
    """A vocabulary of at most so many tokens, 259 of them the single bytes and marks; the same for the same texts.

    Example:
        >>> vocabulary = train_tokenizer(["one two", "eins zwei"] * 10, size=270)
        >>> vocabulary.decode(vocabulary.encode("zwei one").ids)
        'zwei one'
    """
    vocabulary = Tokenizer(models.BPE())
    vocabulary.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    vocabulary.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<pad>", "<begin>", "<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    vocabulary.train_from_iterator(texts, trainer)
    return vocabulary


def encode(vocabulary: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """The tokens of each text, with the end mark behind them."""
    vocabulary.encode_special_tokens = True  # a "<pad>" in the text is text
    return [[*found.ids, END] for found in vocabulary.encode_batch_fast(list(texts), add_special_tokens=False)]


def decode(vocabulary: Tokenizer, rows: Iterable[Sequence[int]]) -> list[str]:
    """The text of each row of tokens, up to its end mark."""
    rows = [list(map(int, row)) for row in rows]
    return [vocabulary.decode(row[: row.index(END)] if END in row else row) for row in rows]
