"""What may stand for lam, rho and beta, checked at the door.

Python and numpy numbers are checked for their range. A schedule ``step -> value`` is checked by its values, when they
are numbers. Scalars of jax and torch pass unseen: they may be traced, and to look at one may wait for a device.
"""

import math
from collections.abc import Callable
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from gradsurgery.scalar import Scalar

Schedule: TypeAlias = Callable[[Any], Scalar]
Hyperparameter: TypeAlias = Scalar | Schedule


def weight(value: Hyperparameter) -> Hyperparameter:
    """A valid ``lam`` of one auxiliary loss."""
    return _checked("lam", value, "lam weighs the auxiliary gradient, so it is at least 0", lambda x: x >= 0)


def weights(value: Any) -> Any:
    """A valid ``lam``: of one auxiliary loss, or a tuple of them."""
    if not isinstance(value, tuple | list):
        return weight(value)
    if not value:
        raise ValueError("lam holds one weight for each auxiliary loss, but got none")
    return tuple(weight(one) for one in value)


def broadcast(value: Any, count: int) -> tuple[Scalar, ...]:
    """One value for each of ``count`` auxiliary losses: those of a tuple, or the same for all."""
    return value if isinstance(value, tuple) else (value,) * count


def share(name: str, value: Hyperparameter) -> Hyperparameter:
    """A valid share of the new value in a moving average, of this name."""
    return _checked(
        name,
        value,
        f"{name} is the new value's share in a moving average, so it is above 0 and at most 1",
        lambda x: 0 < x <= 1,
    )


def optional_rho(rho: Hyperparameter | None) -> Hyperparameter | None:
    """A valid ``rho``, or None for a method that keeps no average."""
    return None if rho is None else share("rho", rho)


def resolve(value: Any, step: Scalar) -> Any:
    """What a hyperparameter, or each in a tuple of them, is at this step."""
    if isinstance(value, tuple):
        return tuple(resolve(one, step) for one in value)
    return value(step) if callable(value) else value


def _checked(name: str, value: Hyperparameter, wanted: str, fits: Callable[[float], bool]) -> Hyperparameter:
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, Real) and not isinstance(value, bool):
        if math.isfinite(value) and fits(float(value)):
            return float(value)
        raise ValueError(f"{wanted}, but got {value}")
    if callable(value) or (not isinstance(value, np.ndarray | np.generic) and getattr(value, "shape", None) == ()):
        return value
    raise TypeError(f"{name} is a number, a scalar array or a schedule step -> number, but got {value!r}")
