"""One step of a method, planned on symbols: what is left for a front end is two passes over memory.

A front end gives the inner products that are asked of it, and gets the weights of the direction over the vectors that
it holds and the rule by which averages move:

    direction = sum of weights[name] * vector[name]
    average   = (1 - rho) * average + rho * gradient   where the step is sound, else unchanged

A step is sound if every inner product asked for is finite, and so is |g|^2 of each gradient that feeds an average and
is in none of them. In an unsound step the weight of main is NaN, so that whatever guards the optimiser skips it.
"""

from collections.abc import Callable
from functools import partial
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

from gradsurgery.diagnostics import diagnosis
from gradsurgery.method import Method, Step
from gradsurgery.scalar import Scalar, ratio
from gradsurgery.vector import Gram, Pair


class Plan(NamedTuple):
    """What a front end does to finish a step."""

    weights: dict[str, Scalar]
    """The direction, over the vectors of ``basis``."""
    sound: Scalar
    """Whether averages, mass and memory may move."""
    rho: Scalar | None
    """The share of the new gradient in its average."""
    mass: Scalar
    """The moving average of the number 1, by which averages are corrected for their start at zero, after this step."""
    memory: tuple[Scalar, ...]
    """The method's own scalars after this step."""
    diagnostics: Callable[[], dict[str, Scalar]]
    """What the step was like, told when asked, as few steps are."""


def basis(method: Method, aux_count: int) -> tuple[str, ...]:
    """The names of a step's vectors: main, aux, aux2, ..., then average (of main), average_aux, ..."""
    gradients = ("main", "aux", *(f"aux{level}" for level in range(2, aux_count + 1)))
    return (*gradients, *("average" if name == "main" else f"average_{name}" for name in gradients[: method.averages]))


def plan(
    method: Method,
    aux_count: int,
    dot: Callable[[str, str], Scalar],
    *,
    steps: Any = 0,
    mass: Scalar = 0.0,
    memory: tuple[Scalar, ...] | None = None,
    measure: bool = False,
) -> Plan:
    """Run a method's formula on symbols.

    Args:
        method: the method, schedules and all.
        aux_count: how many auxiliary gradients there are.
        dot: the inner product of two vectors, by their names in ``basis(method, aux_count)``.
        steps: the number of steps before this one.
        mass: ``Plan.mass`` of the step before.
        memory: ``Plan.memory`` of the step before; None for the start.
        measure: whether to ask for all inner products, so that the diagnostics are complete.

    Example:
        >>> from gradsurgery import mixed
        >>> plan(mixed(lam=0.1), 1, dot=lambda a, b: 1.0).weights
        {'main': 1, 'aux': 0.1}
    """
    method.check_aux_count(aux_count)
    now = method.resolve(steps)
    names = basis(method, aux_count)
    gram = Gram(names, dot)
    main, *others = (gram.vector(name) for name in names)
    aux, averages = others[:aux_count], [ratio(1.0, mass) * average for average in others[aux_count:]]
    step = Step(
        main,
        tuple(aux),
        tuple(averages or [main, *aux][: method.averaged]),
        (0.0,) * len(method.memory) if memory is None else memory,
    )
    direction, memory = now.direction(step), now.remember(step)

    for name in names[: method.averages]:
        if not any(name in pair for pair in gram.products):
            gram.product(name, name)
    asked = list(gram.products.values())
    for u, v in combinations_with_replacement(names, 2) if measure else ():
        gram.product(u, v)

    nothing = sum(0 * product for product in asked)  # NaN if one of them is not finite
    sound = nothing == 0
    rho = getattr(now, "rho", None)
    return Plan(
        weights={**direction.weights, "main": direction.weights.get("main", 0) + nothing},
        sound=sound,
        rho=rho,
        mass=mass if rho is None else (1 - rho) * mass + rho,
        memory=memory,
        diagnostics=partial(_diagnostics, sound, now, names, direction.weights, gram.products),
    )


def _diagnostics(sound: Scalar, *told: Any) -> dict[str, Scalar]:
    return {"sound": sound, **diagnosis(*told)}


def required_products(method: Method, aux_count: int, *, measure: bool = False) -> list[Pair]:
    """The inner products that a step asks for: always the same, as formulas do not branch.

    Example:
        >>> from gradsurgery import bloop
        >>> required_products(bloop(lam=0.1), 1)
        [('average', 'average'), ('aux', 'average'), ('main', 'main')]
    """
    pairs: list[Pair] = []

    def dot(a: str, b: str) -> float:
        pairs.append((a, b))
        return 1.0

    plan(method, aux_count, dot, measure=measure)
    return pairs
