"""Averages in bfloat16, rounded stochastically by the rule of ``gradsurgery.rounding``."""

from typing import Any

import jax
import jax.numpy as jnp

from gradsurgery.jax.tree import AxisNames, Trees, sharded_axes
from gradsurgery.rounding import UInt32, noise, stream_key


def round_averages(averages: Trees, like: Trees, step: jax.Array, axis_names: AxisNames = ()) -> Trees:
    """The averages in the types of ``like``. Those that are bfloat16 there are rounded stochastically.

    Args:
        averages: one tree for each level, in the types to compute in.
        like: trees of the same structure.
        step: the number of steps before this one.
        axis_names: mesh axes over which leaves are sharded, inside ``shard_map``.
    """
    rounded = []
    for level, (tree, like_tree) in enumerate(zip(averages, like, strict=True)):
        leaves, structure = jax.tree.flatten(tree)
        for index, like_leaf in enumerate(jax.tree.leaves(like_tree)):
            if like_leaf.dtype == jnp.bfloat16:
                key = stream_key(step.astype(jnp.uint32), level, index, *_shard_index(leaves[index], axis_names))
                leaves[index] = round_to_bfloat16(leaves[index], key)
        rounded.append(jax.tree.unflatten(structure, leaves))
    return tuple(rounded)


@jax.custom_jvp
def round_to_bfloat16(values: jax.Array, key: UInt32) -> jax.Array:
    """``gradsurgery.rounding.round_to_bfloat16`` for float32 arrays; its derivative is that of the identity."""
    bits = jax.lax.bitcast_convert_type(values, jnp.uint32)
    rounded = jnp.where(jnp.isnan(values), bits | 0x00400000, bits + noise(key, _positions(values)))
    # the upper half as it is: a conversion may flush subnormal numbers to zero
    return jax.lax.bitcast_convert_type((rounded >> 16).astype(jnp.uint16), jnp.bfloat16)


@round_to_bfloat16.defjvp
def _round_jvp(primals: Any, tangents: Any) -> Any:
    return round_to_bfloat16(*primals), tangents[0].astype(jnp.bfloat16)


def _shard_index(leaf: jax.Array, axis_names: AxisNames) -> list[UInt32]:
    """The index of this shard among those of the leaf; empty if the leaf is not sharded."""
    axes = sharded_axes(axis_names, leaf)
    return [jax.lax.axis_index(axes).astype(jnp.uint32)] if axes else []


def _positions(values: jax.Array) -> jax.Array:
    """The row-major index of each element, made of one iota for each axis, which XLA can shard."""
    sharding: Any = getattr(jax.typeof(values), "sharding", None)
    positions, stride = jnp.zeros((), jnp.uint32), 1
    for axis in reversed(range(values.ndim)):
        index = jax.lax.broadcasted_iota(jnp.uint32, values.shape, axis, out_sharding=sharding)
        positions, stride = positions + index * jnp.uint32(stride % 2**32), stride * values.shape[axis]
    return positions
