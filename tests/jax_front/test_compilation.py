"""Compile time grows with the number of leaves only as the loops over them do: the scalars are compiled once."""

import re

import jax
import jax.numpy as jnp

import gradsurgery as gs
import gradsurgery.jax as gsj

LEAVES = 40


def computations(leaves, shape=(64, 64)):
    """The number of lines of each computation in the optimised module of a two-level step."""
    tx = gsj.surgery(gs.bloop(lam=(0.1, 0.01)))
    main = [jnp.zeros(shape) for _ in range(leaves)]
    compiled = jax.jit(tx.update).lower(main, tx.init(main), aux=(main, main)).compile()
    return [
        len(part.splitlines()) for part in re.findall(r"^%fused.*?^}", compiled.as_text(), re.DOTALL | re.MULTILINE)
    ]


def test_sums_over_leaves_are_not_repeated_in_every_scalar():
    assert max(computations(LEAVES)) < 3 * LEAVES  # eight inner products


def test_small_leaves_of_one_type_share_their_reductions():
    one, many = (len(computations(leaves, shape=(200,))) for leaves in (1, LEAVES))
    assert many - one < 5 * LEAVES  # the direction, two averages; a reduction for each leaf would be 24 more
