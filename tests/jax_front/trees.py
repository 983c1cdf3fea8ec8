"""Pytrees for the tests, and conversions between a pytree and one long vector."""

import jax
import jax.numpy as jnp
import numpy as np

NESTED = {"layer": [np.zeros((3, 2)), (), {"scale": np.zeros(())}], "none": None, "head": (np.zeros((1, 4)), {})}
"""Nested, with empty nodes and a leaf without axes: 11 elements."""


def size(tree):
    return sum(np.size(leaf) for leaf in jax.tree.leaves(tree))


def unflatten(like, vector, dtype):
    """The tree with the structure of ``like`` whose elements are those of ``vector``, along its last axis."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
    parts = np.split(np.asarray(vector), ends, axis=-1)
    shaped = [
        jnp.asarray(part.reshape(part.shape[:-1] + np.shape(leaf)), dtype)
        for part, leaf in zip(parts, leaves, strict=True)
    ]
    return jax.tree.unflatten(structure, shaped)


def flat(tree, axes=0):
    """All elements of a tree as one float64 vector; its first ``axes`` axes stay as they are."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]
    return np.concatenate([leaf.reshape(*leaf.shape[:axes], -1) for leaf in leaves], axis=-1)
