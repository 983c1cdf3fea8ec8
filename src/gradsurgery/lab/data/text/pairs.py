"""Pairs of sentences for a translator: as tokens, sorted into buckets by length, in batches that are filled up little.

A bucket holds the pairs whose longer side, end mark included, is at most its limit and more than that of the bucket
below. A batch is drawn from one bucket, so that its sentences are about equally long; the buckets take turns at random.
Pairs that are longer than the last limit are left out, and so are, in each epoch, those that fill no batch.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from gradsurgery.lab.data.cache import cached_folder, memmap
from gradsurgery.lab.data.shuffle import Indices, Seeds, permutation
from gradsurgery.lab.data.text.bitext import Bitext, SentencePair
from gradsurgery.lab.data.text.tokenizer import PAD, encode
from gradsurgery.lab.errors import UserError

Array = np.ndarray[Any, Any]


class PairBatch(NamedTuple):
    """Pairs of one bucket; or several such batches, along a first axis."""

    source: Any
    """(pairs, last limit), filled up with ``PAD``."""
    target: Any
    """The same."""
    bucket: Any
    """Which one: beyond its limit there is nothing but ``PAD``."""


class TokenizedPairs:
    """Pairs as tokens, in batches.

    Args:
        tokens: of all pairs one after another, a source and then its target, in memory or mapped from a file.
        lengths: of each source and each target, (pairs, 2).
        limits: of the buckets, ascending.
        batch: pairs in a batch.
        name: what to call them if they are too few.
    """

    def __init__(
        self, tokens: Array, lengths: Array, limits: Sequence[int], batch: int, name: str = "a corpus"
    ) -> None:
        self._tokens, self._lengths = tokens, lengths
        self._limits, self._batch = limits, batch
        self._starts = np.cumsum(lengths.sum(1), dtype=np.int64) - lengths.sum(1)
        self._buckets = np.searchsorted(limits, lengths.max(1, initial=0))
        counts = np.bincount(self._buckets, minlength=len(limits))[: len(limits)]
        self._in_epoch = int(np.sum(counts // batch))
        if self._in_epoch == 0:
            raise UserError(
                f"{name} needs {batch} pairs of about one length, of at most {limits[-1]} tokens, for a batch, but has "
                f"{counts.sum()} so short in all"
            )
        self._epoch = lru_cache(maxsize=2)(self._plan_epoch)

    def batches(self, count: int, seeds: Seeds, start: int) -> PairBatch:
        """So many batches from the one at ``start`` on, in epochs of which each has an order of its own."""
        places = range(start, start + count)
        chosen = np.stack([self._epoch(seeds, place // self._in_epoch)[place % self._in_epoch] for place in places])
        return PairBatch(self._side(chosen, 0), self._side(chosen, 1), self._buckets[chosen[:, 0]].astype(np.int32))

    def _plan_epoch(self, seeds: Seeds, epoch: int) -> Indices:
        """The pairs of each batch of an epoch, (batches, pairs)."""
        order = permutation(len(self._lengths), seeds, epoch)
        found = []
        for bucket in range(len(self._limits)):
            own = order[self._buckets[order] == bucket]
            found.append(own[: len(own) // self._batch * self._batch].reshape(-1, self._batch))
        plan = np.concatenate(found)
        return plan[permutation(len(plan), seeds, epoch)]

    def _side(self, chosen: Indices, side: int) -> Array:
        """The sources (0) or targets (1) of these pairs, filled up."""
        lengths = self._lengths[chosen, side]
        starts = self._starts[chosen] + (self._lengths[chosen, 0] if side else 0)
        places = np.arange(self._limits[-1])
        inside = places < lengths[..., None]
        return np.where(inside, self._tokens[np.where(inside, starts[..., None] + places, 0)], PAD).astype(np.int32)


def tokenize(pairs: Iterable[SentencePair], vocabulary: Tokenizer) -> Iterator[tuple[Array, Array]]:
    """Tokens and lengths of some thousand pairs at a time."""
    pairs = iter(pairs)
    while some := list(islice(pairs, 10_000)):
        sides = zip(*(encode(vocabulary, side) for side in zip(*some, strict=True)), strict=True)
        rows = [row for pair in sides for row in pair]
        yield (
            np.fromiter((token for row in rows for token in row), np.uint16),
            np.array([len(row) for row in rows], np.int32).reshape(-1, 2),
        )


def tokenize_on_disk(pairs: Bitext, vocabulary: Tokenizer) -> tuple[Array, Array]:
    """Tokens and lengths of all pairs, in files that are made once and mapped: they may be more than fits in memory."""

    def write(folder: Path) -> None:
        with (folder / "tokens").open("wb") as all_tokens, (folder / "lengths").open("wb") as all_lengths:
            for tokens, lengths in tokenize(pairs, vocabulary):
                tokens.tofile(all_tokens)
                lengths.tofile(all_lengths)

    folder = cached_folder(f"pairs {pairs.key} {vocabulary.to_str()}", write)
    return memmap(folder / "tokens", np.uint16), memmap(folder / "lengths", np.int32).reshape(-1, 2)
