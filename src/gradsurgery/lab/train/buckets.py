"""Batches of several lengths in one compiled step: each is cut to the limit of its bucket before it is looked at."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

Tree = Any
BatchLoss = Callable[[Tree, Tree, Tree], jax.Array]
"""(params, extra, batch) -> the loss."""


def bucketed(loss: BatchLoss, cut: Callable[[Tree, int], Tree], limits: Sequence[int]) -> BatchLoss:
    """The loss of a batch as long as ``limits[batch.bucket]``, whichever that is in this step.

    Args:
        loss: of a batch of any length.
        cut: ``(batch, limit) -> batch`` without what lies beyond the limit.
        limits: ascending.
    """

    def within(limit: int, params: Tree, extra: Tree, batch: Tree) -> jax.Array:
        return loss(params, extra, cut(batch, limit))

    losses = [partial(within, limit) for limit in limits]

    @jax.custom_vjp
    def chosen(params: Tree, extra: Tree, batch: Tree) -> jax.Array:
        return jax.lax.switch(batch.bucket, losses, params, extra, batch)

    # the gradient is taken within the branch: what a branch keeps for its way back would otherwise be kept by all
    def forward(params: Tree, extra: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
        return jax.lax.switch(batch.bucket, [jax.value_and_grad(one) for one in losses], params, extra, batch)

    def backward(gradient: Tree, weight: jax.Array) -> tuple[Tree, None, None]:
        return jax.tree.map(lambda leaf: weight * leaf, gradient), None, None

    chosen.defvjp(forward, backward)
    return chosen
