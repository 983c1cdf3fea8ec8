"""Gradient descent along the direction of a method."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import gradsurgery as gs

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Gradients: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""From parameters to the gradients of main and aux."""


def descend(method: gs.Method, gradients: Gradients, theta: Array, eta: float, steps: int) -> Array:
    """The path of gradient descent, (steps + 1, parameters)."""
    step, path = gs.Reference(method), [theta]
    for _ in range(steps):
        path.append(path[-1] - eta * step(*gradients(path[-1])))
    return np.array(path)


def reject(u: Array, v: Array) -> Array:
    """pi(u; v) as in the paper, through a unit vector, so that no square overflows or underflows."""
    unit = v / np.linalg.norm(v)
    return u - (u @ unit) * unit
