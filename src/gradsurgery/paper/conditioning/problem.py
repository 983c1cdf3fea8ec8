"""Two dimensions, where the solution is known: mixed training is slow or wrong, Bloop is neither.

    main = a^2 / 2,   aux = ((a - 1)^2 + b^2) / 2

The bilevel solution is (0, 0). Mixed training converges to (lam / (1 + lam), 0) with condition number 1 + 1 / lam: far
from the solution, or slowly. Bloop's direction is (a, lam b). It converges to the solution for every lam, and is well
conditioned for lam near 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gradsurgery.lab import Count, Metrics, PositiveFloat, Run, RunRecord, Scale, UserError, problem
from gradsurgery.paper.data.sources import data_sources
from gradsurgery.paper.grid import powers_of_ten

if TYPE_CHECKING:
    from matplotlib.figure import Figure


NEAR = 0.01
"""Distance from the solution that counts as converged."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of ``conditioning``."""

    learning_rate: PositiveFloat
    """Of gradient descent."""
    steps: Count
    """Steps of gradient descent, a multiple of 10."""

    def __post_init__(self) -> None:
        if self.steps % 10:
            raise UserError(f"steps must be a multiple of 10; got {self.steps}")


def draw(records: Sequence[RunRecord]) -> "dict[str, Figure]":
    """Draw the figure of the report."""
    from gradsurgery.paper.conditioning.figure import draw

    return draw(records)


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
    data=data_sources,
)
def conditioning(run: Run) -> Iterator[Metrics]:
    """Descend from (1, 1)."""
    from gradsurgery.paper.conditioning.train import build

    yield from build(run.settings, run.data_dir).train(run)
