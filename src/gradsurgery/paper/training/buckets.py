"""Batches of several lengths in one compiled step: each is truncated to the limit of its bucket."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

Tree = Any
BatchLoss = Callable[[Tree, Tree, Tree], jax.Array]
"""(params, extra, batch) -> loss."""


def make_bucketed_loss(loss: BatchLoss, cut: Callable[[Tree, int], Tree], limits: Sequence[int]) -> BatchLoss:
    """Make a loss that first truncates each batch to ``limits[batch.bucket]``.

    ``cut`` drops the positions of a batch beyond a limit; the limits ascend.
    """

    def cut_loss(limit: int, params: Tree, extra: Tree, batch: Tree) -> jax.Array:
        return loss(params, extra, cut(batch, limit))

    branches = [partial(cut_loss, limit) for limit in limits]

    @jax.custom_vjp
    def bucket_loss(params: Tree, extra: Tree, batch: Tree) -> jax.Array:
        return jax.lax.switch(batch.bucket, branches, params, extra, batch)

    # take the gradient inside the branch: otherwise every branch would store the activations of all of them
    def forward(params: Tree, extra: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
        gradients = [jax.value_and_grad(branch) for branch in branches]
        return jax.lax.switch(batch.bucket, gradients, params, extra, batch)

    def backward(gradient: Tree, weight: jax.Array) -> tuple[Tree, None, None]:
        return jax.tree.map(lambda leaf: weight * leaf, gradient), None, None

    bucket_loss.defvjp(forward, backward)
    return bucket_loss
