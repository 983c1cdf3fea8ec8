"""Hyperparameters (lam, rho, beta, tau): validation, and evaluation of schedules.

Python and numpy numbers are range-checked, including those that a schedule ``step -> value`` returns. Scalars of jax
and torch are not checked: they may be traced, and reading one may block on a device.
"""

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, Self, TypeAlias

import numpy as np

from gradsurgery.scalar import Scalar
from gradsurgery.vector import Vector

Schedule: TypeAlias = Callable[[Any], Scalar]
Hyperparameter: TypeAlias = Scalar | Schedule


class StepWeight:
    """A value for ``lam`` that depends on the gradients of the step. Formulas see the number that ``weigh`` returns."""

    def resolve(self, step: Scalar) -> Self:
        """This weight with each schedule replaced by its value at this step."""
        raise NotImplementedError

    def weigh(self, main: Vector, aux: Vector) -> Scalar:
        """The weight of aux, from inner products of the two gradients."""
        raise NotImplementedError


def check_weight(value: Hyperparameter) -> Hyperparameter:
    """Check the weight of one auxiliary loss."""
    if isinstance(value, StepWeight):
        return value
    return _check("lam", value, "lam weighs the auxiliary gradient, so it must be at least 0", lambda x: x >= 0)


def check_weights(value: Any) -> Any:
    """Check ``lam``: one weight, or a tuple with one for each auxiliary loss."""
    if not isinstance(value, tuple | list):
        return check_weight(value)
    if not value:
        raise ValueError("lam must hold one weight for each auxiliary loss; got none")
    return tuple(check_weight(item) for item in value)


def check_ratio(value: Hyperparameter) -> Hyperparameter:
    """Check the ratio of a relative weight."""
    return _check(
        "the ratio of relative",
        value,
        "the ratio of relative is |lam g_aux| / |g_main|, so it must be at least 0",
        lambda x: x >= 0,
    )


def check_share(name: str, value: Hyperparameter) -> Hyperparameter:
    """Check the share of the new value in a moving average."""
    return _check(
        name,
        value,
        f"{name} is the new value's share in a moving average, so it must be above 0 and at most 1",
        lambda x: 0 < x <= 1,
    )


def check_fraction(name: str, value: Hyperparameter) -> Hyperparameter:
    """Check a number from 0 to 1."""
    return _check(name, value, f"{name} must be from 0 to 1", lambda x: 0 <= x <= 1)


def check_rho(rho: Hyperparameter | None) -> Hyperparameter | None:
    """Check ``rho``; None means that the method keeps no average."""
    return None if rho is None else check_share("rho", rho)


def broadcast(value: Any, count: int) -> tuple[Scalar, ...]:
    """One value for each of ``count`` auxiliary losses: the items of a tuple, or the same value for all."""
    return value if isinstance(value, tuple) else (value,) * count


def resolve(value: Any, step: Scalar) -> Any:
    """A hyperparameter, or each item of a tuple, with schedules evaluated at this step."""
    if isinstance(value, tuple):
        return tuple(resolve(item, step) for item in value)
    if isinstance(value, StepWeight):
        return value.resolve(step)
    if not callable(value):
        return value
    number = value(step)
    if number is None or isinstance(number, tuple | list):
        raise TypeError(
            f"a schedule must return one number; got {number!r}: for several auxiliary losses, give lam a tuple of "
            "schedules"
        )
    return number


def depends_on_gradients(lam: Any) -> bool:
    """Whether ``lam``, or an item of it, is a ``StepWeight``."""
    return any(isinstance(item, StepWeight) for item in broadcast(lam, 1))


def weigh(lam: Any, main: Vector, aux: Sequence[Vector]) -> Any:
    """Replace each ``StepWeight`` by its value for these gradients: one number, or a tuple for several aux losses."""
    values = tuple(
        item.weigh(main, vector) if isinstance(item, StepWeight) else item
        for item, vector in zip(broadcast(lam, len(aux)), aux, strict=True)
    )
    return values if isinstance(lam, tuple) or len(values) > 1 else values[0]


def _check(name: str, value: Hyperparameter, expected: str, is_valid: Callable[[float], bool]) -> Hyperparameter:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, Real) and not isinstance(value, bool):
        if math.isfinite(value) and is_valid(float(value)):
            return float(value)
        raise ValueError(f"{expected}; got {value}")
    is_schedule = callable(value) and not isinstance(value, type)  # lam=relative would use the step as its ratio
    if is_schedule or (not isinstance(value, np.ndarray | np.generic) and getattr(value, "shape", None) == ()):
        return value
    raise TypeError(f"{name} must be a number, a scalar array or a schedule step -> number; got {value!r}")
