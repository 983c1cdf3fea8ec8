"""Which part of a dataset is held out for evaluation."""

from collections.abc import Iterable, Sequence

import numpy as np

from gradsurgery.paper.data.shuffle import Indices

HELD_OUT_ROWS = 2000
"""Leading rows held out of a dataset that has a training split only."""


def held_out_split(splits: Iterable[str], preferred: Sequence[str] = ("test", "validation")) -> str | None:
    """Return the first of the preferred splits that the dataset has, or None if it has a training split only."""
    splits = set(splits)
    return next((split for split in preferred if split in splits), None)


def split_off_fifth(count: int, *, held_out: bool) -> Indices:
    """Return the indices of four fifths to train on, or of the other fifth if ``held_out``.

    The split is random, and the same in every run.
    """
    order = np.random.default_rng(0).permutation(count)
    cut = count * 4 // 5
    return order[cut:] if held_out else order[:cut]
