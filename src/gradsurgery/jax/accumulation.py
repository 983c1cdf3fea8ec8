"""Gradient accumulation that is right for all gradients: the mean of each over micro-batches, then one step."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gradsurgery.jax.checks import auxiliary
from gradsurgery.jax.tree import Tree, wide


class AccumulationState(NamedTuple):
    """What ``accumulate`` carries from micro-batch to micro-batch."""

    micro_step: jax.Array
    """Micro-batches in the means so far."""
    means: tuple[Tree, ...]
    """The mean gradient of main, then of each auxiliary loss."""
    inner: Any
    """The state of the optimiser."""


def accumulate(
    inner: optax.GradientTransformation, every: int, *, aux_count: int = 1
) -> optax.GradientTransformationExtraArgs:
    """Step ``inner`` once in ``every`` calls, on the mean of main's and of the auxiliary gradients.

    In between the updates are zero. ``optax.MultiSteps`` around ``surgery`` would use the auxiliary gradients of the
    last micro-batch alone, so ``surgery`` refuses it; this takes its place.

    Args:
        inner: the whole optimiser, with ``surgery`` in it.
        every: how many micro-batches make a step.
        aux_count: how many auxiliary losses there are.

    Example:
        >>> import gradsurgery as gs, gradsurgery.jax as gsj
        >>> tx = gsj.accumulate(optax.chain(gsj.surgery(gs.mixed(lam=1.0)), optax.sgd(1.0)), every=2)
        >>> state = tx.init(jnp.zeros(1))
        >>> for main, aux in [(1.0, 10.0), (3.0, 20.0)]:
        ...     updates, state = tx.update(jnp.array([main]), state, aux=jnp.array([aux]))
        ...     print(updates)
        [0.]
        [-17.]
    """
    if not isinstance(every, int) or every < 1:
        raise ValueError(f"every is a number of micro-batches, so it is a whole number from 1, but got {every!r}")
    optimiser = optax.with_extra_args_support(inner)

    def init(params: Tree) -> AccumulationState:
        zeros = jax.tree.map(lambda leaf: jnp.zeros_like(leaf, dtype=wide(leaf)), params)
        return AccumulationState(jnp.zeros((), jnp.int32), (zeros,) * (1 + aux_count), optimiser.init(params))

    def update(
        updates: Tree, state: AccumulationState, params: Tree | None = None, *, aux: Any = None, **extra: Any
    ) -> tuple[Tree, AccumulationState]:
        gradients = (updates, *auxiliary(updates, aux))
        if len(gradients) != len(state.means):
            raise ValueError(f"accumulate was made for aux_count={aux_count}, but got {len(gradients) - 1} of them")

        def mean(old: jax.Array, new: jax.Array) -> jax.Array:
            return old + (new.astype(old.dtype) - old) / (state.micro_step + 1).astype(old.dtype)

        def step() -> tuple[Tree, Any]:
            return optimiser.update(means[0], state.inner, params, aux=means[1:], **extra)

        def wait() -> tuple[Tree, Any]:
            return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(step)[0]), state.inner

        means = jax.tree.map(mean, state.means, gradients)
        full = state.micro_step + 1 == every
        direction, inner_state = jax.lax.cond(full, step, wait)
        return direction, AccumulationState(
            micro_step=(state.micro_step + 1) % every,
            # where, not a product with full: 0 times NaN is NaN
            means=jax.tree.map(lambda leaf: jnp.where(full, jnp.zeros_like(leaf), leaf), means),
            inner=inner_state,
        )

    return optax.GradientTransformationExtraArgs(init, update)
