"""The role of the moving average: ``language`` at lam = 0.2, for several speeds rho of Bloop's average.

With rho too small the average is stale, and both losses suffer. With rho near 1 it is as noisy as the gradient of one
batch, and training behaves like mixed.
"""

from collections.abc import Iterator

from gradsurgery.lab import Metrics, Run, Scale, problem
from gradsurgery.paper.data.sources import data_sources
from gradsurgery.paper.ema.figure import draw
from gradsurgery.paper.language import problem as language


@problem(
    name="ema",
    title="how fast Bloop's average should move (paper: section Role of the EMA)",
    main=language.language.main,
    aux=language.language.aux,
    scales={
        name: Scale(settings, ("mixed", "bloop"), lams=(0.2,), rhos=(0.001, 0.01, 0.1, 0.9))
        for name, settings in (("demo", language.DEMO), ("laptop", language.LAPTOP), ("paper", language.PAPER))
    },
    draw=draw,
    data=data_sources,
    share_process=True,
)
def ema(run: Run) -> Iterator[Metrics]:
    """Train as ``language`` does."""
    from gradsurgery.paper.language.train import build

    yield from build(run.settings, run.data_dir).train(run)
