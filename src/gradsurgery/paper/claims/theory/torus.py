"""Proposition 1, on a torus of minimisers: theta = (x, y) in R^2 x R^2.

    main = sum of k/8 (|x|^2 - 1)^2 over both blocks, curvature k = 1 and 4;   aux = |theta - aim|^2 / 2

The bilevel solution is x = aim / |aim|, where the Hessian of main is k x x^T; its multiplier is v = (1 - |aim|) / k x.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import gradsurgery as gs
from gradsurgery.lab import Metrics, Run, problem
from gradsurgery.lab.lam import lam_number
from gradsurgery.paper.claims.theory.descent import Array

norm = np.linalg.norm
CURVATURE = np.array([1.0, 4.0])
WIDTH = 0.1
"""Of the tube around the torus where the two constants hold."""
HESSIAN_LIPSCHITZ = 3 * (1 + WIDTH) * float(CURVATURE.max())
"""M in the proposition."""
ERROR_BOUND = 2 / ((2 - WIDTH) * (1 - WIDTH) * float(CURVATURE.min()))
"""c in the proposition: the distance to a minimiser is at most c |g_main|."""


def nearest(theta: Array) -> Array:
    """The minimiser of main nearest to theta."""
    blocks = theta.reshape(2, 2)
    return (blocks / norm(blocks, axis=1, keepdims=True)).ravel()


def hessian(theta: Array) -> Array:
    """The Hessian of main."""
    (x, y), zero = theta.reshape(2, 2), np.zeros((2, 2))
    first, second = (k * (np.outer(z, z) + (z @ z - 1) / 2 * np.eye(2)) for k, z in zip(CURVATURE, (x, y), strict=True))
    return np.block([[first, zero], [zero, second]])


@dataclass(frozen=True)
class Torus:
    """Both losses, for one aim of aux."""

    aim: Array

    def gradients(self, theta: Array) -> tuple[Array, Array]:
        """The gradients of main and aux."""
        blocks = theta.reshape(2, 2)
        return (CURVATURE[:, None] / 2 * ((blocks**2).sum(1, keepdims=True) - 1) * blocks).ravel(), theta - self.aim

    @property
    def solution(self) -> Array:
        """The minimiser of aux among the minimisers of main."""
        return nearest(self.aim)

    @property
    def multiplier(self) -> Array:
        """v, with g_aux = H v at the solution."""
        return np.repeat((1 - norm(self.aim.reshape(2, 2), axis=1)) / CURVATURE, 2) * self.solution

    def draw_points(self, rng: np.random.Generator, count: int) -> list[Array]:
        """Points near the torus, half of them near the solution, at distances from 0.1 down to 1e-5."""
        bases = [nearest(rng.normal(size=4)) for _ in range(count // 2)] + [self.solution] * (count // 2)
        return [base * (1 + np.repeat(rng.uniform(-WIDTH, WIDTH, 2), 2) * 10.0 ** -rng.uniform(0, 4)) for base in bases]

    def stationarity(self, theta: Array, lam: float) -> tuple[float, float]:
        """|g_main| / eps and |g_aux - H v| / ((1/lam + M c^2 |g_aux| / 2) eps), with eps = |d|: both are at most 1."""
        main, aux = self.gradients(theta)
        eps = float(norm(gs.Reference(gs.bloop(lam=lam, rho=None))(main, aux)))
        v = (aux @ main) / (main @ main) * (theta - nearest(theta))
        bound = (1 / lam + HESSIAN_LIPSCHITZ * ERROR_BOUND**2 * norm(aux) / 2) * eps
        return float(norm(main) / eps), float(norm(aux - hessian(theta) @ v) / bound)

    def lengths_along(self, v: Array, distances: list[float], lam: float) -> list[float]:
        """|d(theta* + eps v)| for each eps."""
        step = gs.Reference(gs.bloop(lam=lam, rho=None))
        return [float(norm(step(*self.gradients(self.solution + eps * v)))) for eps in distances]


@problem(
    main="distance to a torus",
    aux="distance to a random point",
    settings={"points": 400},
    methods=("bloop",),
    lams=(0.01, 0.1, 1.0),
    rhos=(),
    name="claims-stationary",
    share_process=True,
)
def stationary(run: Run) -> Iterator[Metrics]:
    """Both directions of Proposition 1, for a random aim."""
    rng, lam = np.random.default_rng(run.seed), lam_number(run.lam or 0.0)
    torus = Torus(rng.normal(size=4))
    points = torus.draw_points(rng, run.settings["points"])
    gradient, optimality = np.max([torus.stationarity(theta, lam) for theta in points], axis=0)
    far, near = torus.lengths_along(torus.multiplier, [1e-1, 1e-5], lam)
    yield {"step": len(points), "gradient": gradient, "optimality": optimality, "vanishing": near / far}
