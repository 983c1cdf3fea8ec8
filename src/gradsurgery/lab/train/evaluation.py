"""Losses on sets that a run is judged by, batch by batch: no more than a batch must fit in memory at once."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

Tree = Any


def mean_losses(
    loss: Callable[[Tree], jax.Array], sets: Mapping[str, Tree], weight: Callable[[Tree], jax.Array | int]
) -> dict[str, jax.Array]:
    """The mean loss on each set.

    Args:
        loss: the mean loss of a batch.
        sets: by name, batches along a first axis, the same number in each.
        weight: what a batch counts, such as its number of tokens.
    """
    together = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *sets.values())
    # one loop over all sets: a network is compiled once, not once for each of them
    losses, weights = jax.lax.map(lambda batch: (loss(batch), weight(batch)), together)
    losses, weights = (values.reshape(len(sets), -1) for values in (losses, weights))
    return dict(zip(sets, jnp.average(losses, axis=1, weights=weights), strict=True))
