"""Gradient noise turns a projection on the current gradient into mixed training: the noise hides main.

E[g_main + lam pi(g_aux; g_main + sigma eps)]

    at sigma = 0      d_bloop = g_main + lam pi(g_aux; g_main)
    as sigma grows    d_mixed = g_main + lam (1 - 1/p) g_aux

The paper's size: p = 100 dimensions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from gradsurgery.lab import Count, Metrics, Run, Scale, UserError, Whole, problem
from gradsurgery.paper.data.sources import data_sources
from gradsurgery.paper.noise.figure import draw

BATCH = 1000
"""Samples drawn at a time."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of ``noise``."""

    dimension: Count
    """Dimension of the gradients."""
    samples: Annotated[int, Whole(least=BATCH)]
    """Noise vectors that each expectation is estimated from, a multiple of 1000."""

    def __post_init__(self) -> None:
        if self.samples % BATCH:
            raise UserError(f"samples must be a multiple of {BATCH}; got {self.samples}")


@problem(
    name="noise",
    title="the projection under gradient noise (paper: fig. Effect of randomness)",
    main="a Gaussian gradient with noise σ",
    aux="another, without noise",
    scales={
        "demo": Scale(Settings(dimension=100, samples=20_000), ("bloop",), lams=(1.0,), rhos=(), seeds=(0, 1, 2)),
        "paper": Scale(Settings(dimension=100, samples=1_000_000), ("bloop",), lams=(1.0,), rhos=()),
    },
    draw=draw,
    trained_with=("bloop",),
    uses_rho=False,
    data=data_sources,
    share_process=True,
)
def noise(run: Run) -> Iterator[Metrics]:
    """Estimate the expected direction at each noise level."""
    from gradsurgery.paper.noise.train import measure

    yield from measure(run)
