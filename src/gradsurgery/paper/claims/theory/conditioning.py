"""Section "Conditioning": main = a^2 / 2, aux = ((a - 1)^2 + b^2) / 2.

Mixed training descends a quadratic with Hessian diag(1 + lam, lam) to (lam / (1 + lam), 0). Bloop descends one with
Hessian diag(1, lam) to the bilevel solution, 0.
"""

from collections.abc import Iterator

import numpy as np

import gradsurgery as gs
from gradsurgery.lab import Metrics, Run, problem
from gradsurgery.lab.lam import lam_number
from gradsurgery.lab.method import make_method
from gradsurgery.paper.claims.theory.descent import Array, descend

ETA = 0.5
"""The step size of the descent."""


def gradients(theta: Array) -> tuple[Array, Array]:
    """The gradients of main and aux at (a, b)."""
    a, b = theta
    return np.array([a, 0.0]), np.array([a - 1, b])


def condition_number(method: gs.Method, theta: Array) -> float:
    """The condition number of the Jacobian of a method's direction, by central differences."""
    small = 1e-5
    rows = [
        (gs.Reference(method)(*gradients(theta + shift)) - gs.Reference(method)(*gradients(theta - shift)))
        / (2 * small)
        for shift in small * np.eye(2)
    ]
    return float(np.linalg.cond(np.array(rows)))


@problem(
    main="a² / 2",
    aux="((a − 1)² + b²) / 2",
    settings={"steps": 2000},
    methods=("mixed", "bloop"),
    lams=(0.03, 0.1, 0.3, 1.0),
    rhos=(),
    name="claims-conditioning",
)
def conditioning(run: Run) -> Iterator[Metrics]:
    """The condition number at a random point, and where descent from it ends."""
    lam = lam_number(run.lam or 0.0)
    start = np.random.default_rng(run.seed).uniform(0.2, 2.0, size=2)
    method = make_method(run.spec.method, lam, None)
    a, b = descend(method, gradients, start, ETA, int(run.settings["steps"]))[-1]
    yield {"step": int(run.settings["steps"]), "condition": condition_number(method, start), "a": a, "b": b}
