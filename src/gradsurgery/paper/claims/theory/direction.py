"""The full-batch direction: <d, g_main> = |g_main|^2 and |d|^2 = |g_main|^2 + lam^2 |pi(g_aux; g_main)|^2."""

from collections.abc import Iterator

import numpy as np

import gradsurgery as gs
from gradsurgery.lab import Metrics, Run, problem
from gradsurgery.paper.claims.theory.descent import Array, reject

norm = np.linalg.norm


def direction_errors(main: Array, aux: Array, lam: float) -> tuple[float, float]:
    """The errors of both equations, relative to the size of what is rounded."""
    d = gs.Reference(gs.bloop(lam=lam, rho=None))(main, aux)
    size = norm(main) + lam * norm(aux)
    length = norm(main) ** 2 + lam**2 * norm(reject(aux, main)) ** 2
    return float(abs(d @ main - main @ main) / (size * norm(main))), float(abs(d @ d - length) / size**2)


@problem(
    main="a random vector",
    aux="another random vector",
    settings={"draws": 1000},
    methods=("bloop",),
    lams=(1.0,),
    rhos=(),
    name="claims-direction",
    share_process=True,
)
def direction(run: Run) -> Iterator[Metrics]:
    """Both equations of the full-batch direction, on random gradients of 2 to 1,000 entries and random lam."""
    rng = np.random.default_rng(run.seed)
    errors = []
    for _ in range(run.settings["draws"]):
        size = rng.integers(2, 1001)
        main, aux = rng.normal(size=(2, size)) * 10.0 ** rng.uniform(-6, 6, size=(2, 1))
        errors.append(direction_errors(main, aux, 10.0 ** rng.uniform(-2, 2)))
    inner, length = np.max(errors, axis=0)
    yield {"step": len(errors), "inner_error": inner, "length_error": length}
