"""The order in which examples are seen: it follows from the seed and the place in training, so it can be resumed."""

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

Seeds: TypeAlias = tuple[int, ...]
"""A run's seed, and a number for what is drawn with it, so that two datasets of a run are not in the same order."""


def drawn(examples: int, count: int, seeds: Seeds, start: int) -> Indices:
    """Which examples stand at ``count`` places from ``start`` on, in epochs of which each has an order of its own.

    Example:
        >>> sorted(int(index) for index in drawn(4, 4, seeds=(0,), start=8))
        [0, 1, 2, 3]
    """
    places = np.arange(start, start + count)
    found = np.empty(count, np.int64)
    for epoch in range(start // examples, (start + count - 1) // examples + 1):
        here = places // examples == epoch
        found[here] = permutation(examples, seeds, epoch)[places[here] % examples]
    return found


def shuffled(examples: int, batch: int, seed: int, epoch: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """The indices of an epoch's batches, (steps, batch); what does not fill a batch is left out."""
    steps = examples // batch
    return permutation(examples, (seed,), epoch)[: steps * batch].reshape(steps, batch).astype(np.int32)


@lru_cache(maxsize=4)  # of large data an order takes seconds, and lasts for many calls
def permutation(examples: int, seeds: Seeds, epoch: int) -> Indices:
    """The order of an epoch."""
    return np.random.default_rng([*seeds, epoch]).permutation(examples)
