"""Opposed losses, aux = -main: full-batch Bloop is gradient descent on main; mixed training diverges if lam > 1."""

from collections.abc import Iterator

import numpy as np

import gradsurgery as gs
from gradsurgery.lab import Metrics, Run, problem
from gradsurgery.lab.lam import lam_number
from gradsurgery.paper.claims.theory.descent import Array, Gradients, descend

norm = np.linalg.norm


def opposed(curvature: Array) -> Gradients:
    """The gradients of main = theta' diag(curvature) theta / 2 and of its opposite."""
    return lambda theta: (curvature * theta, -curvature * theta)


@problem(
    main="a random quadratic",
    aux="its opposite",
    settings={"steps": 400, "dimension": 10},
    methods=("bloop",),
    lams=(5.0,),
    rhos=(),
    name="claims-opposed",
    share_process=True,
)
def opposition(run: Run) -> Iterator[Metrics]:
    """How far Bloop's path is from that of gradient descent on main, and how far main falls."""
    rng = np.random.default_rng(run.seed)
    steps, dimension = run.settings["steps"], run.settings["dimension"]
    curvature, start = rng.uniform(1, 10, dimension), rng.normal(size=dimension)
    bloop, descent = (
        descend(method, opposed(curvature), start, 0.05, steps)
        for method in (gs.bloop(lam=lam_number(run.lam or 0.0), rho=None), gs.mixed(lam=0.0))
    )
    fall = (bloop[-1] ** 2 @ curvature) / (start**2 @ curvature)
    yield {"step": steps, "distance": norm(bloop - descent, axis=1).max() / norm(start), "fall": fall}
