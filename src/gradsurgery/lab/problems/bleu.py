"""How good translations are, and what they look like: BLEU by sacrebleu, and the sentences themselves."""

from collections.abc import Callable
from itertools import islice
from typing import Any

import jax
import numpy as np
from sacrebleu import BLEU
from tokenizers import Tokenizer

from gradsurgery.lab.data.text.bitext import Bitext
from gradsurgery.lab.data.text.tokenizer import PAD, decode, encode
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.run import Sample

Tree = Any


class Judge:
    """Lets a model translate what is held out, and compares.

    Args:
        words: the vocabulary.
        translate: ``(params, extra, source) -> tokens`` of a batch, (batch, length).
        tokenize: how sacrebleu takes a text apart: ``13a`` into words, ``char`` into characters.
        length: of the longest sentence that the model reads or writes; pairs that are longer are passed over.
    """

    def __init__(
        self, words: Tokenizer, translate: Callable[[Tree, Tree, jax.Array], jax.Array], tokenize: str, length: int
    ) -> None:
        self._words, self._length = words, length
        self._translate = jax.jit(
            lambda params, extra, batches: jax.lax.map(lambda source: translate(params, extra, source), batches)
        )
        try:
            self._bleu = BLEU(tokenize=tokenize)
        except KeyError as error:
            raise UserError(f"bleu is a tokeniser of sacrebleu, such as 13a or char, but got {tokenize}") from error

    def __call__(
        self, params: Tree, extra: Tree, corpus: Bitext, *, count: int, batch: int
    ) -> tuple[float, list[Sample]]:
        """BLEU of the translations of the first so many pairs that are not too long, and the translations."""
        fitting = (pair for pair in corpus if max(map(len, encode(self._words, pair))) <= self._length)
        sources, references = zip(*islice(fitting, count), strict=True)
        tokens = self._translate(params, extra, self._filled(encode(self._words, sources), batch))
        outputs = decode(self._words, np.asarray(tokens).reshape(-1, self._length)[: len(sources)])
        samples = [Sample(*texts) for texts in zip(sources, references, outputs, strict=True)]
        return self._bleu.corpus_score(outputs, [references]).score, samples

    def _filled(self, rows: list[list[int]], batch: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        """Rows filled up to the length, in whole batches: (batches, batch, length)."""
        found = np.full((-(-len(rows) // batch) * batch, self._length), PAD, np.int32)
        for place, row in enumerate(rows):
            found[place, : len(row)] = row
        return found.reshape(-1, batch, self._length)
