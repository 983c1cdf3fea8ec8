"""The second pass for CPUs: ``tree.combine_and_update`` without a copy of each average.

On a CPU, XLA updates an average in place only if nothing reads the old one afterwards, and the direction does. So here
the averages are updated first, and the direction is formed from the new ones:

    old average = (new average - take * gradient) / keep

This loses digits if the old average is much shorter than its gradient, and is impossible in the first step (keep = 0).
Such a step forms the direction first, inside a while loop of at most one iteration, because XLA orders reads before
in-place writes there.

To drop this file, import ``combine_and_update`` from ``gradsurgery.jax.tree`` in ``transform.py``.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import zip_longest
from operator import or_
from typing import Any

import jax
import jax.numpy as jnp

from gradsurgery.jax import tree
from gradsurgery.jax.tree import Tree, Trees, combine, compute_dtype, materialize, scalar_type, update_averages
from gradsurgery.scalar import Scalar


@jax.jit  # outside of jit, the loop would be compiled again in every step
def combine_and_update(
    weights: Sequence[Scalar | None], keep: Scalar, take: Scalar, gradients: Trees, averages: Trees
) -> tuple[Tree, Trees]:
    """Like ``tree.combine_and_update``, which it calls on other devices and if the direction contains no average."""
    # the old average is recovered by the very numbers that updated it, so round them first
    keep, take = (jnp.asarray(number, scalar_type(gradients[0])) for number in (keep, take))
    if all(weight is None for weight in weights[len(gradients) :]):
        return tree.combine_and_update(weights, keep, take, gradients, averages)
    result: tuple[Tree, Trees] = jax.lax.platform_dependent(
        weights, keep, take, gradients, averages, cpu=_in_place, default=tree.combine_and_update
    )
    return result


@jax.custom_jvp
def _in_place(
    weights: Sequence[Scalar | None], keep: jax.Array, take: jax.Array, gradients: Trees, averages: Trees
) -> tuple[Tree, Trees]:
    main, *_, last = gradients
    numbers = [0.0 if weight is None else weight for weight in weights]
    gradient_weights, average_weights = numbers[: len(gradients)], numbers[len(gradients) :]

    # recovering an average subtracts b take / keep from its gradient's weight a: digits cancel unless that is below |a|
    cancels = (abs(b) * take >= keep * abs(a) for a, b in zip(gradient_weights, average_weights, strict=False))
    direction_first = reduce(or_, cancels)
    new_average_weights = [weight / keep for weight in average_weights]
    update_first = [
        *(a - take * b for a, b in zip_longest(gradient_weights, new_average_weights, fillvalue=0.0)),
        *new_average_weights,
    ]
    # the loop replaces the last gradient by the part of the direction that comes from it and from all averages
    after_loop = [*gradient_weights[:-1], 1.0, *(0.0 for _ in average_weights)]
    final = [jnp.where(direction_first, a, b) for a, b in zip(after_loop, update_first, strict=True)]

    # in an unsound step all of these are NaN: the loop does not run, and averages are unchanged
    *packed, keep, take, take_after_loop, direction_first = materialize(
        scalar_type(main),
        *final, gradient_weights[-1], *average_weights,
        keep, take, jnp.where(direction_first, 0, take), direction_first,
    )  # fmt: skip
    final, in_loop = packed[: len(final)], packed[len(final) :]

    def depend_on_weights(leaf: jax.Array) -> jax.Array:
        # costs nothing; under shard_map a loop's input and output must vary over the same mesh axes
        return jnp.where(direction_first > 0, leaf, leaf)

    def loop_body(state: Any) -> Any:
        rest, averages, _ = state
        stop = depend_on_weights(jnp.zeros_like(direction_first))  # a constant: XLA sees at most one iteration
        rest = combine(in_loop, (rest, *averages), like=rest)
        return rest, update_averages(averages, gradients, keep, take), stop

    rest = jax.tree.map(lambda leaf, like: leaf.astype(compute_dtype(like)), last, main)
    rest, averages = jax.tree.map(depend_on_weights, (rest, averages))
    rest, averages, _ = jax.lax.while_loop(lambda state: state[2] > 0, loop_body, (rest, averages, direction_first))
    averages = update_averages(averages, gradients, keep, take_after_loop)
    return combine(final, (*gradients[:-1], rest, *averages), like=main), averages


@_in_place.defjvp
def _in_place_jvp(primals: Any, tangents: Any) -> Any:
    """The JVP of the plain pass: a while loop has no reverse mode, and recovered averages have too few digits."""
    return jax.jvp(tree.combine_and_update, primals, tangents)
