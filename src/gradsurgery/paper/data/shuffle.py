"""Which examples are seen in which order.

The order is a function of the seed and the position in training, so that a resumed run sees what it would have seen.
"""

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

Seeds: TypeAlias = tuple[int, ...]
"""The seed of the run, and further numbers where one run shuffles several datasets independently."""


def epoch_indices(examples: int, count: int, seeds: Seeds, start: int) -> Indices:
    """Return the examples at positions ``start`` to ``start + count`` of training, each epoch in another order.

    Example:
        >>> sorted(int(index) for index in epoch_indices(4, 4, seeds=(0,), start=8))
        [0, 1, 2, 3]
    """
    positions = np.arange(start, start + count)
    indices = np.empty(count, np.int64)
    for epoch in range(start // examples, (start + count - 1) // examples + 1):
        inside = positions // examples == epoch
        indices[inside] = permutation(examples, seeds, epoch)[positions[inside] % examples]
    return indices


def epoch_batches(examples: int, batch: int, seed: int, epoch: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return the examples of each batch of an epoch, (steps, batch), without an incomplete last batch."""
    steps = examples // batch
    return permutation(examples, (seed,), epoch)[: steps * batch].reshape(steps, batch).astype(np.int32)


@lru_cache(maxsize=4)  # takes seconds for a large dataset, and serves many calls
def permutation(examples: int, seeds: Seeds, epoch: int) -> Indices:
    """Return the order of an epoch."""
    return np.random.default_rng([*seeds, epoch]).permutation(examples)


def evenly_spaced(length: int, count: int) -> Indices:
    """Return ``count`` indices at equal distances in ``range(length)``; some repeat if ``count > length``.

    Example:
        >>> evenly_spaced(10, 4).tolist()
        [0, 2, 5, 7]
    """
    return np.arange(count) * length // count
