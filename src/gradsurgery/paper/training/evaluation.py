"""Losses over whole datasets, batch by batch: only one batch has to fit in memory."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradsurgery.paper.training.sharding import Placement

Tree = Any


def mean_losses(
    loss: Callable[[Tree], jax.Array], sets: Mapping[str, Tree], weight: Callable[[Tree], jax.Array | int]
) -> dict[str, jax.Array]:
    """Compute the mean loss on each set, inside XLA.

    Args:
        loss: the mean loss of a batch.
        sets: name -> batches along a first axis, the same number in each set.
        weight: the weight of a batch in the mean, such as its number of tokens.
    """
    batches = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *sets.values())
    # one loop over all sets, so that the network is compiled once, not once per set
    losses, weights = jax.lax.map(lambda batch: (loss(batch), weight(batch)), batches)
    losses, weights = (values.reshape(len(sets), -1) for values in (losses, weights))
    return dict(zip(sets, jnp.average(losses, axis=1, weights=weights), strict=True))


def batch_by_batch(
    measure: Callable[[Tree, Tree, Tree, Tree], Mapping[str, jax.Array]],
    evaluation_batches: Callable[[bool], Iterable[Tree]],
) -> Callable[[Tree, Tree, Tree], dict[str, float]]:
    """Make an evaluation that calls a compiled function for each batch and averages on the host.

    Args:
        measure: ``(params, extra, data, batch) -> metrics``, means over the batch.
        evaluation_batches: ``held_out -> batches`` of equal sizes; each of several processes makes its own slice.

    Returns:
        ``(params, extra, data) -> metrics``, with ``_train`` or ``_test`` appended to their names.
    """
    compiled, placement = jax.jit(measure), Placement(jax.devices())

    def evaluate(params: Tree, extra: Tree, data: Tree) -> dict[str, float]:
        means: dict[str, float] = {}
        for split, held_out in (("train", False), ("test", True)):
            metrics = [
                jax.device_get(compiled(params, extra, data, placement.place_local_batch(batch)))
                for batch in evaluation_batches(held_out)
            ]
            for name in metrics[0]:
                means[f"{name}_{split}"] = float(np.mean([values[name] for values in metrics], dtype=np.float64))
        return means

    return evaluate
