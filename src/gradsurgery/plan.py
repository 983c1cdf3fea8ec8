"""One step of a method, run on symbols, so that a front end needs only two passes over memory.

A front end supplies the inner products. It gets back the weights of the direction over the vectors that it holds, and
the rule that updates its averages:

    direction = sum of weights[name] * vector[name]
    average   = keep * average + take * gradient       if the step is sound, else unchanged

Front ends keep averages corrected for their start at zero. With mass_t the moving average of the number 1,

    mass' = (1 - rho) mass + rho,   keep = (1 - rho) mass / mass',   take = 1 - keep

so that the first average is the first gradient. Uncorrected it would be rho times that, and its square would underflow
long before the gradient's does.

A step is sound if every inner product, |g|^2 of each gradient that enters an average, and every weight are finite. A
gradient that is part of no inner product, as in mixed training, is checked by its |g|^2. In an unsound step the weight
of the last gradient is NaN, so that a guard such as a ``GradScaler`` skips the step.
"""

from collections.abc import Callable
from functools import partial
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

from gradsurgery.diagnostics import compute_diagnostics
from gradsurgery.method import Method, Step
from gradsurgery.scalar import Scalar, ratio, smallest_square
from gradsurgery.vector import Gram, Pair


class Plan(NamedTuple):
    """What a front end needs to finish a step."""

    weights: dict[str, Scalar]
    """The direction, over the vectors of ``basis``."""
    sound: Scalar
    """Whether the step is sound; if not, averages, mass and memory keep their values."""
    keep: Scalar
    """The weight of the old average in the new one; 1 for a method without averages."""
    take: Scalar
    """The weight of the new gradient in its average: 1 - keep."""
    mass: Scalar
    """The moving average of the number 1 after this step."""
    memory: tuple[Scalar, ...]
    """The method's own scalars after this step."""
    diagnostics: Callable[[], dict[str, Scalar]]
    """Diagnostics, computed lazily: most steps never read them."""


def basis(method: Method, aux_count: int) -> tuple[str, ...]:
    """The names of a step's vectors: main, aux, aux2, ..., then average (of main), average_aux, ..."""
    gradients = ("main", "aux", *(f"aux{level}" for level in range(2, aux_count + 1)))
    return (*gradients, *("average" if name == "main" else f"average_{name}" for name in gradients[: method.averages]))


def plan(
    method: Method,
    names: tuple[str, ...],
    dot: Callable[[str, str], Scalar],
    *,
    mass: Scalar = 0.0,
    memory: tuple[Scalar, ...] | None = None,
    measure: bool = False,
) -> Plan:
    """Run a method's formula on symbols.

    Args:
        method: the method at this step, ``method.resolve(step)``.
        names: the names of the step's vectors, ``basis(method, aux_count)``.
        dot: the inner product of two vectors, by name.
        mass: ``Plan.mass`` of the step before.
        memory: ``Plan.memory`` of the step before; None in the first step.
        measure: whether to compute every inner product, which makes the diagnostics complete.

    Example:
        >>> from gradsurgery import mixed
        >>> plan(mixed(lam=0.1), ("main", "aux"), dot=lambda a, b: 1.0).weights
        {'main': 1, 'aux': 0.1}
    """
    computed: list[Scalar] = []

    def product(a: str, b: str) -> Scalar:
        value = dot(a, b)
        computed.append(value)
        return value * (value >= smallest_square(value)) if a == b else value

    gram = Gram(names, product)
    main, *others = (gram.vector(name) for name in names)
    aux_count = len(others) - method.averages
    aux, averages = others[:aux_count], others[aux_count:]
    step = Step(
        main,
        tuple(aux),
        tuple(averages or [main, *aux]),
        (0.0,) * len(method.memory) if memory is None else memory,
    )
    method = method.resolve_lam(step)
    direction, memory = method.direction(step), method.remember(step)

    used = {name for pair in gram.products for name in pair}
    for position, name in enumerate(names[: 1 + aux_count]):
        if position < len(averages) or name not in used:
            gram.product(name, name)
    # as computed, not from gram.products: XLA computes NaN * False as 0
    numbers = [*computed, *direction.weights.values(), *memory]
    for u, v in combinations_with_replacement(names, 2) if measure else ():
        gram.product(u, v)

    zero = sum(0 * number for number in numbers)  # NaN if one of them is not finite
    last = names[aux_count]  # not main: its weight is the constant 1 in most methods
    sound = zero == 0
    keep, take, new_mass = average_weights(method.rho, mass) if averages else (1.0, 0.0, mass)
    return Plan(
        weights={**direction.weights, last: direction.weights.get(last, 0) + zero},
        sound=sound,
        keep=keep,
        take=take,
        mass=new_mass,
        memory=memory,
        diagnostics=partial(_diagnostics, sound, method, names, direction.weights, gram.products),
    )


def average_weights(rho: Scalar, mass: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """``keep``, ``take`` and the new mass of an average, from its mass before the step.

    rho may be close to 1, so 1 - rho is formed before a front end rounds it. It may be close to 0, where the rounding
    error of keep + take would add up over 1 / rho steps, so take is 1 - keep, which is exact there, not rho / mass'.
    """
    old = (1 - rho) * mass
    keep = ratio(old, old + rho)
    return keep, 1 - keep, old + rho


def _diagnostics(sound: Scalar, *step: Any) -> dict[str, Scalar]:
    return {"sound": sound, **compute_diagnostics(*step)}


def required_products(method: Method, aux_count: int, *, measure: bool = False) -> list[Pair]:
    """The inner products that a step needs: the same in every step, since formulas do not branch.

    Example:
        >>> from gradsurgery import bloop
        >>> required_products(bloop(lam=0.1), 1)
        [('average', 'average'), ('aux', 'average'), ('main', 'main')]
    """
    pairs: list[Pair] = []

    def dot(a: str, b: str) -> float:
        pairs.append((a, b))
        return 1.0

    plan(method.resolve(0), basis(method, aux_count), dot, measure=measure)
    return pairs
