"""Tokenized sentence pairs in batches with little padding.

Pairs are sorted into buckets by the length of their longer side, END included. Each bucket has a maximum length, its
limit. All pairs of a batch come from one bucket; the batches of all buckets are shuffled. Pairs longer than the last
limit are dropped, and in each epoch so are the pairs left over when a bucket is divided into batches.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer

from gradsurgery.lab import UserError
from gradsurgery.paper.data.cache import cached_folder, memmap
from gradsurgery.paper.data.shuffle import Indices, Seeds, permutation
from gradsurgery.paper.data.text.bitext import Bitext, SentencePair
from gradsurgery.paper.data.text.tokenizer import PAD, encode

Array = np.ndarray[Any, Any]


class PairBatch(NamedTuple):
    """Pairs from one bucket, or several such batches stacked along a leading axis."""

    source: Any
    """(pairs, last limit), padded with ``PAD``."""
    target: Any
    """Likewise."""
    bucket: Any
    """Index of the bucket; all tokens beyond its limit are ``PAD``."""


class TokenizedPairs:
    """Batches of tokenized pairs.

    Args:
        tokens: source and target of each pair in turn, concatenated, in memory or memory-mapped.
        lengths: number of tokens of each source and target, (pairs, 2).
        limits: maximum lengths of the buckets, ascending.
        batch: pairs in a batch.
        name: used in error messages.
    """

    def __init__(
        self, tokens: Array, lengths: Array, limits: Sequence[int], batch: int, name: str = "a corpus"
    ) -> None:
        self._tokens, self._lengths = tokens, lengths
        self._limits, self._batch = limits, batch
        self._starts = np.cumsum(lengths.sum(1), dtype=np.int64) - lengths.sum(1)
        self._buckets = np.searchsorted(limits, lengths.max(1, initial=0))
        counts = np.bincount(self._buckets, minlength=len(limits))[: len(limits)]
        self._batches_per_epoch = int(np.sum(counts // batch))
        if self._batches_per_epoch == 0:
            raise UserError(
                f"{name} needs {batch} pairs in one bucket for a batch, but its buckets, of at most "
                f"{', '.join(map(str, limits))} tokens, have {', '.join(map(str, counts))} pairs"
            )
        self._epoch = lru_cache(maxsize=2)(self._plan_epoch)

    def batches(self, count: int, seeds: Seeds, start: int) -> PairBatch:
        """Return ``count`` batches from number ``start`` of training on; each epoch has its own order."""
        pairs = np.stack(
            [
                self._epoch(seeds, number // self._batches_per_epoch)[number % self._batches_per_epoch]
                for number in range(start, start + count)
            ]
        )
        return PairBatch(self._pad(pairs, 0), self._pad(pairs, 1), self._buckets[pairs[:, 0]].astype(np.int32))

    def _plan_epoch(self, seeds: Seeds, epoch: int) -> Indices:
        """Return the pairs of each batch of an epoch, (batches, pairs)."""
        order = permutation(len(self._lengths), seeds, epoch)
        batches = []
        for bucket in range(len(self._limits)):
            members = order[self._buckets[order] == bucket]
            batches.append(members[: len(members) // self._batch * self._batch].reshape(-1, self._batch))
        plan = np.concatenate(batches)
        return plan[permutation(len(plan), seeds, epoch)]

    def _pad(self, pairs: Indices, side: int) -> Array:
        """Return the sources (0) or targets (1) of these pairs, padded to the last limit."""
        lengths = self._lengths[pairs, side]
        starts = self._starts[pairs] + (self._lengths[pairs, 0] if side else 0)
        positions = np.arange(self._limits[-1])
        inside = positions < lengths[..., None]
        return np.where(inside, self._tokens[np.where(inside, starts[..., None] + positions, 0)], PAD).astype(np.int32)


def tokenize_on_disk(pairs: Bitext, tokenizer: Tokenizer) -> tuple[Array, Array]:
    """Return tokens and lengths of all pairs from cached, memory-mapped files: they may be larger than RAM."""

    def write(folder: Path) -> None:
        with (folder / "tokens").open("wb") as all_tokens, (folder / "lengths").open("wb") as all_lengths:
            for tokens, lengths in _tokenize(pairs, tokenizer):
                tokens.tofile(all_tokens)
                lengths.tofile(all_lengths)

    folder = cached_folder(f"pairs {pairs.key} {tokenizer.to_str()}", write)
    return memmap(folder / "tokens", np.uint16), memmap(folder / "lengths", np.int32).reshape(-1, 2)


def _tokenize(pairs: Iterable[SentencePair], tokenizer: Tokenizer) -> Iterator[tuple[Array, Array]]:
    """Yield the tokens and lengths of 10,000 pairs at a time."""
    pairs = iter(pairs)
    while group := list(islice(pairs, 10_000)):
        sides = zip(*(encode(tokenizer, side) for side in zip(*group, strict=True)), strict=True)
        rows = [row for pair in sides for row in pair]
        yield (
            np.fromiter((token for row in rows for token in row), np.uint16),
            np.array([len(row) for row in rows], np.int32).reshape(-1, 2),
        )
