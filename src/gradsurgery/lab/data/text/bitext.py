"""Bitext text: sentences in English and the same in German, from a dataset or made on the spot."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from gradsurgery.lab.data.hub import ColumnStream
from gradsurgery.lab.data.text.builtin import SENTENCE_PAIRS
from gradsurgery.lab.errors import UserError

SentencePair: TypeAlias = tuple[str, str]
"""A source and its translation."""


class Bitext(Iterable[SentencePair]):
    """Pairs of sentences, in the order of their dataset.

    Args:
        name: a name in ``SENTENCE_PAIRS``, or the hub id of a dataset with a column ``translation``
             of ``en`` and ``de``.
        data_dir: a folder that stands in for the hub.
        held_out: whether to take what is kept for evaluation.
        limit: how many pairs to take at most.
        spread: whether to take them from all over the dataset, and not from its beginning.
    """

    def __init__(
        self,
        name: str,
        data_dir: Path | None = None,
        *,
        held_out: bool,
        limit: int | None = None,
        spread: bool = False,
    ) -> None:
        self.name = name
        self._pairs: list[SentencePair] | ColumnStream
        if name in SENTENCE_PAIRS:
            self._pairs = SENTENCE_PAIRS[name](held_out)[:limit]
            self.key = hashlib.sha256(repr(self._pairs).encode()).hexdigest()
        else:
            self._pairs = ColumnStream(name, "translation", data_dir, held_out=held_out, limit=limit, spread=spread)
            self.key = self._pairs.key

    def __iter__(self) -> Iterator[SentencePair]:
        """The pairs."""
        if not isinstance(self._pairs, ColumnStream):
            yield from self._pairs
            return
        for row in self._pairs:
            if row.get("en") is None or row.get("de") is None:
                raise UserError(f"a translation in {self.name} is from en to de, but one is {row}")
            yield row["en"], row["de"]
