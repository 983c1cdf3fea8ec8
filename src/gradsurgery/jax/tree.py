"""Arithmetic of pytrees: inner products, and linear combinations.

Sums run in float32 at least, and in float64 for float64, whatever the leaves are. Complex leaves count as pairs of real
numbers.
"""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp

from gradsurgery.scalar import Scalar

Tree = Any


def wide(leaf: jax.Array) -> Any:
    """The type to compute in for a leaf: its own, but float32 at least."""
    return jnp.promote_types(leaf.dtype, jnp.float32)


def real(dtype: Any) -> Any:
    """The type of the real part of numbers of this type."""
    return jnp.finfo(dtype).dtype  # type: ignore[no-untyped-call]


def scalar_type(tree: Tree) -> Any:
    """The real type of the inner products of a pytree: the widest of its leaves', float32 at least."""
    return jnp.result_type(jnp.float32, *(real(leaf.dtype) for leaf in jax.tree.leaves(tree)))


def inner(u: Tree, v: Tree) -> jax.Array:
    """The inner product of two pytrees of one structure."""
    dtype = jnp.promote_types(scalar_type(u), scalar_type(v))
    parts = [_inner(x, y).astype(dtype) for x, y in zip(jax.tree.leaves(u), jax.tree.leaves(v), strict=True)]
    return sum(parts, jnp.zeros((), dtype))


def settled(dtype: Any, *scalars: Scalar) -> jax.Array:
    """The scalars as one array that XLA computes once; NaN throughout if one of them is not finite.

    Left alone, XLA fuses all the arithmetic that leads to a weight into each loop over elements that uses it: for 160
    leaves, minutes of compilation and a step many times slower. It does not fuse a matrix product.
    """
    row = jnp.stack([jnp.asarray(scalar, dtype) for scalar in scalars])
    return jnp.dot(row, jnp.eye(len(scalars), dtype=dtype), precision=jax.lax.Precision.HIGHEST)


def combination(weights: Iterable[jax.Array], trees: Iterable[Tree], like: Tree) -> Tree:
    """The sum of the trees times their weights, in the types of ``like``."""
    numbers = list(weights)

    def leaf(like: jax.Array, *leaves: jax.Array) -> jax.Array:
        terms = [_times(weight, x.astype(wide(like))) for weight, x in zip(numbers, leaves, strict=True)]
        total: jax.Array = sum(terms[1:], terms[0])
        return total.astype(like.dtype)

    return jax.tree.map(leaf, like, *trees)


def update_averages(
    averages: tuple[Tree, ...], gradients: tuple[Tree, ...], keep: jax.Array, take: jax.Array
) -> tuple[Tree, ...]:
    """keep * average + take * gradient; unchanged if ``take`` is 0 or NaN, as in an unsound step.

    Args:
        averages: the averages of the first gradients.
        gradients: the gradients, main first.
        keep: the weight of an average.
        take: the weight of its gradient.
    """

    def update(old: jax.Array, new: jax.Array) -> jax.Array:
        # where, not a product with take: 0 times NaN is NaN
        return jnp.where(take > 0, _times(keep, old) + _times(take, new.astype(old.dtype)), old)

    return jax.tree.map(update, averages, gradients[: len(averages)])


def _inner(x: jax.Array, y: jax.Array) -> jax.Array:
    # elementwise, not a dot: a dot would flatten sharded leaves, and round its factors on some accelerators
    dtype = jnp.promote_types(wide(x), wide(y))
    return jnp.sum(jnp.real(jnp.conj(x.astype(dtype)) * y.astype(dtype)))


def _times(weight: jax.Array, leaf: jax.Array) -> jax.Array:
    return weight.astype(real(leaf.dtype)) * leaf
