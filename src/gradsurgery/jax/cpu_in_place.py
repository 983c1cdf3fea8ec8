"""The second pass over memory: the direction, and the averages moved.

    direction = sum of weights[name] * trees[name],   average <- keep average + take gradient

On a CPU, XLA writes an average where it lies only if nobody still reads what it was; else it copies every one of them.
So there the direction is formed from what the averages have moved to, by weights that undo the move:

    average = (moved - take gradient) / keep

Where an average has faded beside what it takes in, rounding would show: where its move, undone, would weigh more than
its gradient does. Such a step goes ahead in a loop that runs once or not at all, and so writes in place, too: the last
gradient becomes its own and the averages' share of the direction, the averages move, and nothing of them is left to
weigh or to move.
"""

from collections.abc import Sequence
from functools import reduce
from itertools import zip_longest
from operator import or_
from typing import Any

import jax
import jax.numpy as jnp

from gradsurgery.jax.tree import Tree, combination, scalar_type, settled, update_averages, wide
from gradsurgery.scalar import Scalar

Trees = tuple[Tree, ...]


@jax.jit  # so that a step outside of jit does not compile its loop anew
def formed(
    weights: Sequence[Scalar], keep: Scalar, take: Scalar, gradients: Trees, averages: Trees
) -> tuple[Tree, Trees]:
    """The direction, NaN throughout if a weight is not finite, and the averages, moved if all are and take is above 0.

    Args:
        weights: the direction, over the gradients and then the averages; None for those that are not in it.
        keep: the weight of an average in what it moves to.
        take: the weight of its gradient.
        gradients: those of the losses, main first.
        averages: those of the first of them.
    """
    # what averages are moved by, and no other type's, is undone
    keep, take = (jnp.asarray(number, scalar_type(gradients[0])) for number in (keep, take))
    if all(weight is None for weight in weights[len(gradients) :]):
        return _plainly(weights, keep, take, gradients, averages)
    # elsewhere a loop would wait for its condition
    found: tuple[Tree, Trees] = jax.lax.platform_dependent(
        weights, keep, take, gradients, averages, cpu=_in_place, default=_plainly
    )
    return found


def _plainly(
    weights: Sequence[Scalar], keep: jax.Array, take: jax.Array, gradients: Trees, averages: Trees
) -> tuple[Tree, Trees]:
    main, *_ = gradients
    vectors = [(weight, tree) for weight, tree in zip(weights, gradients + averages, strict=True) if weight is not None]
    *numbers, keep, take = settled(scalar_type(main), *(weight for weight, _ in vectors), keep, take)
    updated = update_averages(averages, gradients, keep, take)
    return combination(numbers, [tree for _, tree in vectors], like=main), updated


@jax.custom_jvp
def _in_place(
    weights: Sequence[Scalar], keep: jax.Array, take: jax.Array, gradients: Trees, averages: Trees
) -> tuple[Tree, Trees]:
    main, *_, last = gradients
    exact = [0.0 if weight is None else weight for weight in weights]
    own, kept = exact[: len(gradients)], exact[len(gradients) :]
    # or equal: where take is 1 and neither weighs anything, there is no move to undo
    faded = reduce(or_, (abs(b) * take >= keep * abs(a) for a, b in zip(own, kept, strict=False)))
    undone = [weight / keep for weight in kept]
    usual = [*(a - take * b for a, b in zip_longest(own, undone, fillvalue=0.0)), *undone]
    ahead = [*own[:-1], 1.0, *(0.0 for _ in kept)]
    used = [jnp.where(faded, a, b) for a, b in zip(ahead, usual, strict=True)]

    # in an unsound step all are NaN: no loop, and averages that do not move
    *numbers, keep, take, later, faded = settled(
        scalar_type(main), *used, own[-1], *kept, keep, take, jnp.where(faded, 0, take), faded
    )
    used, share = numbers[: len(used)], numbers[len(used) :]

    def dependent(leaf: jax.Array) -> jax.Array:
        # the same twice costs nothing; under shard_map what depends on the weights differs in type
        return jnp.where(faded > 0, leaf, leaf)

    def go_ahead(state: Any) -> Any:
        rest, averages, _ = state
        done = dependent(jnp.zeros_like(faded))  # as a constant to XLA, which sees that there is one turn at most
        return combination(share, (rest, *averages), like=rest), update_averages(averages, gradients, keep, take), done

    rest = jax.tree.map(lambda leaf, like: leaf.astype(wide(like)), last, main)
    rest, averages = jax.tree.map(dependent, (rest, averages))
    rest, averages, _ = jax.lax.while_loop(lambda state: state[2] > 0, go_ahead, (rest, averages, faded))
    averages = update_averages(averages, gradients, keep, later)
    return combination(used, (*gradients[:-1], rest, *averages), like=main), averages


@_in_place.defjvp
def _in_place_jvp(primals: Any, tangents: Any) -> Any:
    """That of the plain way: a loop cannot be gone back through, and what is undone has lost digits that count here."""
    return jax.jvp(_plainly, primals, tangents)
