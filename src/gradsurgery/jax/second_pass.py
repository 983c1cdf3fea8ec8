"""The second pass over memory: the direction, and the averages moved.

    direction = sum of weights[name] * trees[name],   average <- (1 - rho) average + rho gradient

On a CPU, XLA writes an average where it lies only if nobody still reads what it was; else it copies every one of them.
So there the direction is formed from what the averages have moved to, by weights that undo the move:

    average = (moved - rho gradient) / (1 - rho)

Where an average has faded beside what it takes in, rounding would show. Such a step goes ahead in a loop that runs once
or not at all, and so writes in place, too: the last gradient becomes its own and the averages' share of the direction,
the averages move, and nothing of them is left to weigh or to move.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from itertools import zip_longest
from operator import or_
from typing import Any

import jax
import jax.numpy as jnp

from gradsurgery.jax.tree import Tree, combination, moved, scalar_type, settled, wide
from gradsurgery.scalar import Scalar

FADED = 16
"""How much the undone move of an average may weigh beside its gradient: what is rounded is as many times as large."""

Trees = tuple[Tree, ...]


def formed(weights: Sequence[Scalar], rho: Scalar, gradients: Trees, averages: Trees) -> tuple[Tree, Trees]:
    """The direction, NaN throughout if a weight is not finite, and the averages, moved if all are and rho is above 0.

    Args:
        weights: the direction, over the gradients and then the averages; None for those that are not in it.
        rho: the share of a gradient in its average.
        gradients: those of the losses, main first.
        averages: those of the first of them.
    """
    given = weights, rho, gradients, averages
    if all(weight is None for weight in weights[len(gradients) :]):
        return _plainly(*given)
    # elsewhere a loop would wait for its condition
    found: tuple[Tree, Trees] = jax.lax.platform_dependent(
        cpu=lambda: _in_place(*given), default=lambda: _plainly(*given)
    )
    return found


def _plainly(weights: Sequence[Scalar], rho: Scalar, gradients: Trees, averages: Trees) -> tuple[Tree, Trees]:
    main, *_ = gradients
    vectors = [(weight, tree) for weight, tree in zip(weights, gradients + averages, strict=True) if weight is not None]
    *numbers, rho = settled(scalar_type(main), *(weight for weight, _ in vectors), rho)
    return combination(numbers, [tree for _, tree in vectors], like=main), moved(averages, gradients, rho)


def _in_place(weights: Sequence[Scalar], rho: Scalar, gradients: Trees, averages: Trees) -> tuple[Tree, Trees]:
    main, *_, last = gradients
    exact = [0.0 if weight is None else weight for weight in weights]
    own, kept = exact[: len(gradients)], exact[len(gradients) :]
    faded = reduce(or_, (abs(b) * rho >= FADED * (1 - rho) * abs(a) for a, b in zip(own, kept, strict=False)))
    undone = [weight / jnp.where(faded, 1, 1 - rho) for weight in kept]
    usual = [*(a - rho * b for a, b in zip_longest(own, undone, fillvalue=0.0)), *undone]
    ahead = [*own[:-1], 1.0, *(0.0 for _ in kept)]
    used = [jnp.where(faded, a, b) for a, b in zip(ahead, usual, strict=True)]

    *numbers, rho, later, faded = settled(
        scalar_type(main), *used, own[-1], *kept, rho, jnp.where(faded, 0, rho), faded
    )
    used, share = numbers[: len(used)], numbers[len(used) :]
    rest = jax.tree.map(lambda leaf, like: leaf.astype(wide(like)), last, main)
    rest, averages = once(_gone_ahead, faded, (rest, averages), (share, rho, gradients))
    averages = moved(averages, gradients, later)
    return combination(used, (*gradients[:-1], rest, *averages), like=main), averages


def _gone_ahead(carry: tuple[Tree, Trees], given: tuple[list[jax.Array], jax.Array, Trees]) -> tuple[Tree, Trees]:
    (rest, averages), (share, rho, gradients) = carry, given
    return combination(share, (rest, *averages), like=rest), moved(averages, gradients, rho)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def once(function: Callable[[Any, Any], Any], whether: jax.Array, carry: Any, given: Any) -> Any:
    """``function(carry, given)`` if ``whether`` is above 0, else the carry: written where that lies, if it may be."""

    def body(state: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        return jnp.zeros_like(whether), function(state[1], given)

    return jax.lax.while_loop(lambda state: state[0] > 0, body, (whether, carry))[1]


@once.defjvp
def _once_jvp(function: Callable[[Any, Any], Any], primals: Any, tangents: Any) -> Any:
    """As by ``where``: JAX cannot go back through a loop that does not say how often it runs."""

    def chosen(whether: jax.Array, carry: Any, given: Any) -> Any:
        return jax.tree.map(partial(jnp.where, whether > 0), function(carry, given), carry)

    return jax.jvp(chosen, primals, tangents)
