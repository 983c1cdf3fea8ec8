"""Gradient accumulation: the mean gradient of each loss over several micro-batches, then one step."""

from numbers import Integral
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from gradsurgery.jax.checks import as_aux_tuple, check_parameters
from gradsurgery.jax.tree import Tree, zeros_like


class AccumulationState(NamedTuple):
    """The state of ``accumulate``."""

    micro_step: jax.Array
    """The number of micro-batches in the means so far."""
    means: tuple[Tree, ...]
    """The mean gradient of main, then of each auxiliary loss, in float32 at least."""
    inner: Any
    """The state of the optimiser."""


def accumulate(
    inner: optax.GradientTransformation, every: int, *, aux_count: int = 1
) -> optax.GradientTransformationExtraArgs:
    """Update ``inner`` once per ``every`` calls, with the mean gradient of each loss.

    The other calls return zero updates. Use this instead of ``optax.MultiSteps``, which passes on the auxiliary
    gradients of the last micro-batch only; ``surgery`` raises inside it.

    As in ``optax.MultiSteps``, ``inner`` gets means in the types of the gradients, and its state keeps the types that
    ``init`` gave it.

    Args:
        inner: the whole optimiser, including ``surgery``.
        every: the number of micro-batches in a step.
        aux_count: the number of auxiliary losses.

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
    if not isinstance(every, Integral) or every < 1:
        raise ValueError(f"every must be an integer of at least 1, the number of micro-batches; got {every!r}")
    optimiser = optax.with_extra_args_support(inner)

    def init(params: Tree) -> AccumulationState:
        check_parameters(params)
        # separate buffers: jit refuses to donate the same one twice
        means = tuple(zeros_like(params) for _ in range(1 + aux_count))
        return AccumulationState(jnp.zeros((), jnp.int32), means, optimiser.init(params))

    def update(
        updates: Tree, state: AccumulationState, params: Tree | None = None, *, aux: Any = None, **extra: Any
    ) -> tuple[Tree, AccumulationState]:
        gradients = (updates, *as_aux_tuple(updates, aux))
        if len(gradients) != len(state.means):
            count = len(gradients) - 1
            raise ValueError(
                f"accumulate was made for aux_count={aux_count}, but the number of trees in aux is {count}"
            )

        def mean(old: jax.Array, new: jax.Array) -> jax.Array:
            return old + (new.astype(old.dtype) - old) / (state.micro_step + 1).astype(old.dtype)

        def step() -> tuple[Tree, Any]:
            main, *aux = jax.tree.map(lambda mean, gradient: mean.astype(gradient.dtype), means, gradients)
            direction, new = optimiser.update(main, state.inner, params, aux=tuple(aux), **extra)
            return direction, jax.tree.map(lambda leaf, old: leaf.astype(old.dtype), new, state.inner)

        def wait() -> tuple[Tree, Any]:
            # from a gradient, not from a shape: zeros_like keeps its sharding
            types = jax.tree.map(lambda leaf: leaf.dtype, jax.eval_shape(step)[0])
            return jax.tree.map(jnp.zeros_like, updates, types), state.inner

        means = jax.tree.map(mean, state.means, gradients)
        full = state.micro_step + 1 >= every  # above it if the state was saved with a larger ``every``
        direction, inner_state = jax.lax.cond(full, step, wait)
        return direction, AccumulationState(
            micro_step=jnp.where(full, 0, state.micro_step + 1),
            # where, not a product with full: 0 times NaN is NaN
            means=jax.tree.map(lambda leaf: jnp.where(full, jnp.zeros_like(leaf), leaf), means),
            inner=inner_state,
        )

    return optax.GradientTransformationExtraArgs(init, update)
