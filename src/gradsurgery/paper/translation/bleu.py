"""The quality of translations: BLEU by sacrebleu, and samples to read."""

from collections.abc import Callable
from itertools import islice
from typing import Any

import jax
import numpy as np
from sacrebleu import BLEU
from tokenizers import Tokenizer

from gradsurgery.lab import Sample, UserError
from gradsurgery.paper.data.text.bitext import Bitext
from gradsurgery.paper.data.text.tokenizer import PAD, decode, encode

Tree = Any


class BleuScorer:
    """Translates held-out sentences and scores the translations.

    Args:
        vocabulary: the tokenizer of the model.
        translate: ``(params, extra, source) -> tokens`` of a batch, (batch, length).
        tokenize: the tokenizer of sacrebleu: ``13a`` splits into words, ``char`` into characters.
        length: tokens of the longest sentence that the model reads or writes; longer pairs are skipped.
    """

    def __init__(
        self, vocabulary: Tokenizer, translate: Callable[[Tree, Tree, jax.Array], jax.Array], tokenize: str, length: int
    ) -> None:
        self._vocabulary, self._length = vocabulary, length
        self._translate = jax.jit(
            lambda params, extra, batches: jax.lax.map(lambda source: translate(params, extra, source), batches)
        )
        try:
            self._bleu = BLEU(tokenize=tokenize)
        except KeyError as error:
            raise UserError(f"bleu must be a tokenizer of sacrebleu, such as 13a or char; got {tokenize!r}") from error

    def __call__(
        self, params: Tree, extra: Tree, corpus: Bitext, *, count: int, batch: int
    ) -> tuple[float, list[Sample]]:
        """Translate the first ``count`` pairs that are short enough. Returns their BLEU and the translations."""
        short_enough = (pair for pair in corpus if max(map(len, encode(self._vocabulary, pair))) <= self._length)
        sources, references = zip(*islice(short_enough, count), strict=True)
        tokens = self._translate(params, extra, self._pad(encode(self._vocabulary, sources), batch))
        outputs = decode(self._vocabulary, np.asarray(tokens).reshape(-1, self._length)[: len(sources)])
        samples = [Sample(*texts) for texts in zip(sources, references, outputs, strict=True)]
        return self._bleu.corpus_score(outputs, [references]).score, samples

    def _pad(self, sentences: list[list[int]], batch: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Pad sentences to the length, and their number to whole batches: (batches, batch, length)."""
        padded = np.full((-(-len(sentences) // batch) * batch, self._length), PAD, np.int32)
        for row, sentence in zip(padded, sentences, strict=False):
            row[: len(sentence)] = sentence
        return padded.reshape(-1, batch, self._length)
