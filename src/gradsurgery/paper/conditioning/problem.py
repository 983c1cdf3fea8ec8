"""Two dimensions, where the solution is known: mixed training is slow or wrong, Bloop is neither.

    main = a^2 / 2,   aux = ((a - 1)^2 + b^2) / 2

The bilevel solution is (0, 0). Mixed training converges to (lam / (1 + lam), 0) with condition number 1 + 1 / lam: far
from the solution, or slowly. Bloop's direction is (a, lam b). It converges to the solution for every lam, and is well
conditioned for lam near 1.

Gradient descent starts at (1, 1) with seed 0, and at a random point with any other.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

import gradsurgery as gs
from gradsurgery.lab import Count, Metrics, PositiveFloat, Run, Scale, problem
from gradsurgery.paper.conditioning.figure import NEAR, draw
from gradsurgery.paper.grid import powers_of_ten

Array: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]

ROWS = 500
"""Maximum number of recorded rows, not counting that of the start."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of ``conditioning``."""

    learning_rate: PositiveFloat
    """Of gradient descent."""
    steps: Count
    """Steps of gradient descent."""


def gradients(theta: Array) -> tuple[Array, Array]:
    """The gradients of main and aux at (a, b)."""
    a, b = theta
    return np.array([a, 0.0]), np.array([a - 1, b])


def condition_number(method: gs.Method, theta: Array) -> float:
    """The condition number of the Jacobian of a method's direction, by central differences."""

    def direction(theta: Array) -> Array:
        return gs.Reference(method)(*gradients(theta))

    small = 1e-5
    shifts = small * np.eye(2)
    rows = [(direction(theta + shift) - direction(theta - shift)) / (2 * small) for shift in shifts]
    return float(np.linalg.cond(np.array(rows)))


@problem(
    name="conditioning",
    title="two dimensions, where the solution is known (paper: section Conditioning)",
    main="a² / 2",
    aux="((a − 1)² + b²) / 2",
    scales={
        "demo": Scale(
            Settings(learning_rate=0.1, steps=10_000), ("mixed", "bloop"), lams=powers_of_ten(-3, 1, 9), rhos=()
        )
    },
    draw=draw,
    share_process=True,
)
def conditioning(run: Run) -> Iterator[Metrics]:
    """Gradient descent along the direction of the method, in float64."""
    steps, step = run.settings.steps, gs.Reference(run.method)
    theta = np.ones(2) if run.seed == 0 else np.random.default_rng(run.seed).uniform(0.2, 2.0, size=2)
    every = steps // math.gcd(steps, ROWS)
    condition, iterations = condition_number(run.method, theta), math.nan
    for count in range(steps + 1):
        distance = float(np.linalg.norm(theta))
        if math.isnan(iterations) and distance <= NEAR:
            iterations = count
        if count % every == 0:
            a, b = map(float, theta)
            main, aux = a**2 / 2, ((a - 1) ** 2 + b**2) / 2
            losses = {"main_train": main, "aux_train": aux, "main_test": main, "aux_test": aux}
            position = {"a": a, "b": b, "distance": distance, "iterations": iterations}
            run.progress = count / steps
            yield {"step": count, **losses, **position, "condition": condition}
        theta = theta - run.settings.learning_rate * step(*gradients(theta))
