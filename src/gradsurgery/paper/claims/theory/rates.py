"""Theorem 1, on least squares with 3 equations for 10 unknowns, main = |A theta|^2 / 2, and gradients with noise.

Aux pulls away from the solutions. With eta = T^-3/4 and rho = eta^2/3 the theorem promises

    (1/T) sum_t E |g_main|^2 = O(T^-1/4),      E[main] = (1 - 2 eta mu)^T main_0 + O(eta^1/3)

so that on a log-log plot over T both fall with a slope of -1/4 or steeper. In runs that start at a solution of
main, both come only from the part of aux that leaks into main, which the average reduces. From far away, the term
main_0 / (eta T) of plain gradient descent is added, which falls exactly like T^-1/4.
"""

from collections.abc import Iterator

import numpy as np

import gradsurgery as gs
from gradsurgery.lab import Metrics, Run, problem
from gradsurgery.paper.claims.theory.descent import Array, descend

A = np.linalg.qr(np.random.default_rng(9).normal(size=(10, 3)))[0].T * [[1.0], [1.2], [1.4]]
PULL = A.sum(axis=0) * 2 + np.eye(10)[-1]
"""The minimiser of aux."""
SHORTEST = 64
"""Steps of the shortest run; each next one is four times as long."""


def residuals(averaged: bool, steps: int, seed: int, distance: float = 0.0) -> Array:
    """A theta along a run with the theorem's step size and average: |A theta|^2 / 2 is main's loss without noise.

    It starts at a distance from a solution of main. Unless ``averaged``, it projects on the gradient of the step.
    """
    eta = steps**-0.75
    rng = np.random.default_rng(seed)

    def gradients(theta: Array) -> tuple[Array, Array]:
        return A.T @ A @ theta + rng.normal(0, 0.3, 10), theta - PULL

    start = -distance * A.sum(axis=0) / np.linalg.norm(A.sum(axis=0))
    method = gs.bloop(lam=0.5, rho=eta ** (2 / 3) if averaged else None)
    return descend(method, gradients, start, eta, steps) @ A.T


def gradient_and_loss(path: Array) -> tuple[float, float]:
    """|g_main|^2 averaged over a run, and main's loss averaged over its second half."""
    gradient = ((path @ A) ** 2).sum(axis=1).mean()
    return float(gradient), float((path[len(path) // 2 :] ** 2).sum(axis=1).mean() / 2)


@problem(
    main="least squares with noise",
    aux="distance to a point off the solutions",
    settings={"lengths": 4, "distance": 5.0},
    methods=("bloop",),
    lams=(0.5,),
    rhos=(),
    name="claims-rates",
    share_process=True,
)
def rates(run: Run) -> Iterator[Metrics]:
    """Both quantities of the theorem for runs of several lengths: with and without the average, and from far away."""
    far = run.settings["distance"]
    for number in range(run.settings["lengths"]):
        steps = SHORTEST * 4**number
        row: dict[str, float] = {"step": steps}
        for name, averaged, distance in (("average", True, 0.0), ("none", False, 0.0), ("far", True, far)):
            path = residuals(averaged, steps, run.seed, distance)
            row[f"gradient_{name}"], row[f"loss_{name}"] = gradient_and_loss(path)
        yield row


def slope(lengths: list[float], values: list[float]) -> float:
    """The slope of a line through the logarithms."""
    return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])
