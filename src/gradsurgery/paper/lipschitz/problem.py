"""A smooth network: an MLP on digits, with a bound on its Lipschitz constant as auxiliary loss.

    main = cross-entropy,   aux = log prod_l |W_l|_2

The paper's sizes: 784 inputs (misprinted as 728), 256, 128, 10; Adam at 3e-4, 100 epochs of batches of 256, 5 epochs of
warm-up, cosine decay, lam from 1e-4 to 1.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gradsurgery.lab import Count, CountOrZero, Metrics, Name, PositiveFloat, Run, Scale, problem
from gradsurgery.paper.data.sources import data_sources
from gradsurgery.paper.grid import COMPARED, powers_of_ten
from gradsurgery.paper.training.chunking import chunk_epochs

EXAMPLES = {"digits": 1437, "ylecun/mnist": 60_000}
"""The number of training images in the datasets of the scales. For any other, it is known once the data is loaded."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of ``lipschitz``."""

    main_data: Name
    """``digits``, ``photographs``, or the hub id of a dataset with columns ``image`` or ``img``, and ``label``."""
    epochs: Count
    """Passes over the training images."""
    warmup_epochs: CountOrZero
    """Epochs in which the learning rate rises from 0."""
    batch: Count
    """Images in a step."""
    learning_rate: PositiveFloat
    """Of Adam, at the end of the warm-up."""
    rows_per_epoch: Count
    """How often losses are recorded."""

    def __post_init__(self) -> None:
        if self.main_data in EXAMPLES:
            chunk_epochs(self.epochs, EXAMPLES[self.main_data], self.batch, self.rows_per_epoch)


DEMO = Settings(main_data="digits", epochs=30, warmup_epochs=2, batch=128, learning_rate=3e-3, rows_per_epoch=1)
PAPER = Settings(main_data="ylecun/mnist", epochs=100, warmup_epochs=5, batch=256, learning_rate=3e-4, rows_per_epoch=1)
LAPTOP = replace(PAPER, epochs=10, warmup_epochs=1, rows_per_epoch=2)
LAMS = powers_of_ten(-4, 0, 9)


@problem(
    name="lipschitz",
    title="a smooth MLP on digits (paper: MNIST)",
    main="cross-entropy",
    aux="log of the product of spectral norms",
    scales={
        "demo": Scale(DEMO, COMPARED, LAMS, rhos=(0.03,), seeds=(0, 1, 2)),
        "laptop": Scale(LAPTOP, COMPARED, LAMS),
        "paper": Scale(PAPER, COMPARED, LAMS),
    },
    data=data_sources,
    share_process=True,
)
def lipschitz(run: Run) -> Iterator[Metrics]:
    """Train the MLP."""
    from gradsurgery.paper.lipschitz.train import build

    yield from build(run.settings, run.data_dir).train(run)
