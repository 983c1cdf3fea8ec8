"""Arithmetic on pytrees: the two passes over memory of a step.

The first pass computes inner products (``inner_products``). The second forms the direction and updates the averages
(``combine_and_update``):

    direction = sum of weights[k] * vectors[k],   average <- keep * average + take * gradient

All arithmetic is in float32 at least, whatever the types of the leaves, and in float64 for float64 leaves. A complex
number counts as a pair of real ones.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from gradsurgery.scalar import Scalar
from gradsurgery.vector import Pair

Tree: TypeAlias = Any
Trees: TypeAlias = tuple[Tree, ...]
AxisNames: TypeAlias = tuple[str, ...]

SMALL = 1 << 12
"""Leaves with fewer elements are stacked for their inner products: copying them is cheaper than a loop for each."""


def compute_dtype(leaf: jax.Array) -> Any:
    """The type to compute in for a leaf: its own, but float32 at least."""
    return jnp.promote_types(leaf.dtype, jnp.float32)


def zeros_like(tree: Tree, dtype: Any = None) -> Tree:
    """Zeros with the shapes of a pytree, in this type, or else in the types to compute in."""
    return jax.tree.map(lambda leaf: jnp.zeros_like(leaf, dtype=dtype or compute_dtype(leaf)), tree)


def scalar_type(tree: Tree) -> Any:
    """The real type of the inner products of a pytree: the widest of its leaves' types, float32 at least."""
    return jnp.result_type(jnp.float32, *(_real(leaf.dtype) for leaf in jax.tree.leaves(tree)))


def inner_products(
    trees: Mapping[str, Tree], pairs: Sequence[Pair], axis_names: AxisNames = ()
) -> dict[Pair, jax.Array]:
    """The inner products of these pairs of pytrees, which all have the same structure.

    Args:
        trees: the pytrees, by name.
        pairs: the names of the factors of each product.
        axis_names: mesh axes over which leaves are sharded, inside ``shard_map``.
    """
    dtype = jnp.result_type(*map(scalar_type, trees.values()))
    blocks = _stack_small_leaves(trees)
    table = [[_sum_over(axis_names, _inner(block[a], block[b])) for block in blocks] for a, b in pairs]
    # one table, which XLA keeps: it would compile a plain sum over leaves into every scalar that depends on it
    return dict(zip(pairs, jnp.sum(jnp.array(table, dtype), axis=1), strict=True))


def combine_and_update(
    weights: Sequence[Scalar | None], keep: Scalar, take: Scalar, gradients: Trees, averages: Trees
) -> tuple[Tree, Trees]:
    """The direction and the new averages. A weight that is not finite makes the direction NaN and keeps the averages.

    Args:
        weights: the direction, over the gradients and then the averages; None for a vector that is not part of it.
        keep: the weight of the old average in the new one.
        take: the weight of the gradient in its new average; 0 leaves the averages unchanged.
        gradients: the gradients of the losses, main first.
        averages: the averages of the first gradients.
    """
    main = gradients[0]
    terms = [(weight, tree) for weight, tree in zip(weights, gradients + averages, strict=True) if weight is not None]
    *numbers, keep, take = materialize(scalar_type(main), *(weight for weight, _ in terms), keep, take)
    direction = combine(numbers, [tree for _, tree in terms], like=main)
    return direction, update_averages(averages, gradients, keep, take)


def materialize(dtype: Any, *scalars: Scalar) -> jax.Array:
    """Compute the scalars once, as one array; all are NaN if one of them is not finite.

    Left alone, XLA fuses the arithmetic that leads to a weight into every elementwise loop that uses it: for 160
    leaves, minutes of compilation and a step many times slower. It does not fuse a matrix product.
    """
    row = jnp.stack([jnp.asarray(scalar, dtype) for scalar in scalars])
    return jnp.dot(row, jnp.eye(len(scalars), dtype=dtype), precision=jax.lax.Precision.HIGHEST)


def combine(weights: Iterable[jax.Array], trees: Iterable[Tree], like: Tree) -> Tree:
    """The weighted sum of the trees, in the types of ``like``."""
    numbers = list(weights)

    def combine_leaves(like: jax.Array, *leaves: jax.Array) -> jax.Array:
        terms = [_times(weight, x.astype(compute_dtype(like))) for weight, x in zip(numbers, leaves, strict=True)]
        total: jax.Array = sum(terms[1:], terms[0])
        return total.astype(like.dtype)

    return jax.tree.map(combine_leaves, like, *trees)


def update_averages(averages: Trees, gradients: Trees, keep: jax.Array, take: jax.Array) -> Trees:
    """keep * average + take * gradient, in the types to compute in; unchanged if ``take`` is 0 or NaN (unsound)."""

    def update(old: jax.Array, new: jax.Array) -> jax.Array:
        old = old.astype(compute_dtype(old))
        # where, not a product with take: 0 times NaN is NaN
        return jnp.where(take > 0, _times(keep, old) + _times(take, new.astype(old.dtype)), old)

    return jax.tree.map(update, averages, gradients[: len(averages)])


def sharded_axes(axis_names: AxisNames, leaf: jax.Array) -> AxisNames:
    """Those of the mesh axes that a leaf is sharded over, inside ``shard_map``.

    ``shard_map`` tracks over which axes a value varies. With ``check_vma=False`` it does not, and all of them count.
    """
    return tuple(name for name in axis_names if not _is_tracked(name) or name in _varying_axes(leaf))


def _stack_small_leaves(trees: Mapping[str, Tree]) -> list[dict[str, jax.Array]]:
    """The leaves of each tree, by its name. Small leaves of one type are stacked: one loop for all of them.

    A type includes the sharding over explicit mesh axes, so nothing is resharded.
    """
    groups: dict[Any, list[tuple[jax.Array, ...]]] = {}
    for index, leaves in enumerate(zip(*map(jax.tree.leaves, trees.values()), strict=True)):
        kind = tuple(map(jax.typeof, leaves)) if leaves[0].size < SMALL else index
        groups.setdefault(kind, []).append(leaves)
    columns = [zip(*group, strict=True) for group in groups.values()]
    return [dict(zip(trees, map(_stack, column), strict=True)) for column in columns]


def _stack(leaves: tuple[jax.Array, ...]) -> jax.Array:
    return jnp.stack(leaves) if len(leaves) > 1 else leaves[0]


def _real(dtype: Any) -> Any:
    """The type of the real part of a number of this type."""
    return jnp.finfo(dtype).dtype  # type: ignore[no-untyped-call]


def _inner(x: jax.Array, y: jax.Array) -> jax.Array:
    # elementwise, not jnp.vdot: a dot would flatten sharded leaves, and rounds its factors on some accelerators
    dtype = jnp.promote_types(compute_dtype(x), compute_dtype(y))
    return jnp.sum(jnp.real(jnp.conj(x.astype(dtype)) * y.astype(dtype)))


def _sum_over(axis_names: AxisNames, product: jax.Array) -> jax.Array:
    """Sum a leaf's product over those mesh axes that the leaf is sharded over.

    So a replicated leaf counts once.
    """
    sharded = sharded_axes(axis_names, product)
    return jax.lax.psum(product, sharded) if sharded else product  # type: ignore[no-untyped-call]


def _is_tracked(axis_name: str) -> bool:
    return axis_name in _varying_axes(jax.lax.axis_index(axis_name))


def _varying_axes(x: jax.Array) -> frozenset[str]:
    kind: Any = jax.typeof(x)
    if hasattr(kind, "manual_axis_type"):
        return kind.manual_axis_type.varying
    return getattr(kind, "vma", frozenset())  # its name before jax 0.10


def _times(weight: jax.Array, leaf: jax.Array) -> jax.Array:
    return weight.astype(_real(leaf.dtype)) * leaf
