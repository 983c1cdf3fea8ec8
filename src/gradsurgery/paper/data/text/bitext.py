"""Sentences in English with their German translations, built in or from a dataset."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from gradsurgery.lab import UserError
from gradsurgery.paper.data.hub import ColumnStream
from gradsurgery.paper.data.text.builtin import SENTENCE_PAIRS

SentencePair: TypeAlias = tuple[str, str]
"""A source sentence and its translation."""


class Bitext(Iterable[SentencePair]):
    """Sentence pairs in dataset order.

    Args:
        name: a key of ``SENTENCE_PAIRS``, or the hub id of a dataset with a column ``translation`` of
            ``en`` and ``de``.
        data_dir: folder whose subfolders stand in for hub ids.
        held_out: take the pairs to evaluate on.
        limit: maximum number of pairs, by default taken from the beginning.
        spread: take them at equal distances from the whole dataset instead.
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
            self._pairs = ColumnStream(
                name, "translation", data_dir, dtype=dict, held_out=held_out, limit=limit, spread=spread
            )
            self.key = self._pairs.key

    def __iter__(self) -> Iterator[SentencePair]:
        """Iterate over the pairs, source first."""
        if not isinstance(self._pairs, ColumnStream):
            yield from self._pairs
            return
        for row in self._pairs:
            if not (isinstance(row.get("en"), str) and isinstance(row.get("de"), str)):
                raise UserError(f"each translation in {self.name} must have an en and a de text; got {row}")
            yield row["en"], row["de"]
