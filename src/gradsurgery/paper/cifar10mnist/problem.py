"""Two labels for one image: a digit overlaid on a picture, and a residual network with two heads.

    main = cross-entropy of the picture's label,   aux = cross-entropy of the digit's label

The paper's sizes: MNIST over CIFAR-10, ResNet18; SGD with Nesterov momentum 0.9, batches of 256, 100 epochs, learning
rate 0.1 / (1 + lam) with 5 epochs of warm-up and cosine decay; rho = 0.001; lam from 1e-3 to 1e3, "split equally on log
scale": we take 13 values. ``data/images/overlay.py`` describes how digits are overlaid.

Both losses see the same images, so there is one set of batch statistics, updated in main's pass.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gradsurgery.lab import Metrics, Name, Run, Scale, problem
from gradsurgery.paper.data.sources import data_sources
from gradsurgery.paper.grid import COMPARED, powers_of_ten
from gradsurgery.paper.training.residual_network_settings import ResidualNetworkSettings


@dataclass(frozen=True, kw_only=True)
class Settings(ResidualNetworkSettings):
    """Settings of ``cifar10mnist``."""

    main_data: Name
    """The pictures: ``photographs``, or the hub id of a dataset with columns ``image`` or ``img``, and ``label``."""
    aux_data: Name
    """The digits: ``digits``, or a hub id."""


DEMO = Settings(
    main_data="photographs",
    aux_data="digits",
    train_images=1600,
    test_images=400,
    blocks="1,1,1",
    bottleneck=False,
    width=8,
    batch=64,
    epochs=10,
    warmup_epochs=1,
    learning_rate=0.4,
    margin=2,
    rows_per_epoch=2,
    evaluated=256,
)
LAPTOP = replace(
    DEMO,
    main_data="uoft-cs/cifar10",
    aux_data="ylecun/mnist",
    train_images=8000,
    test_images=2000,
    batch=32,
    epochs=4,
    learning_rate=0.3,
    margin=4,
    rows_per_epoch=5,
    evaluated=1000,
)
PAPER = replace(
    LAPTOP,
    train_images=50_000,
    test_images=10_000,
    blocks="2,2,2,2",
    width=64,
    batch=256,
    epochs=100,
    warmup_epochs=5,
    learning_rate=0.1,
    rows_per_epoch=1,
    evaluated=10_000,
)


@problem(
    name="cifar10mnist",
    title="a digit overlaid on a picture, two labels (paper: Cifar10Mnist)",
    main="cross-entropy of the picture's label",
    aux="cross-entropy of the digit's label",
    scales={
        "demo": Scale(DEMO, COMPARED, lams=(0.3, 1.0, 3.0, 10.0, 30.0), rhos=(0.03,)),
        "laptop": Scale(LAPTOP, COMPARED, lams=(0.1, 0.3, 1.0, 3.0, 10.0), rhos=(0.03,)),
        "paper": Scale(PAPER, COMPARED, lams=powers_of_ten(-3, 3, 13), rhos=(0.001,)),
    },
    data=data_sources,
    share_process=True,
)
def cifar10mnist(run: Run) -> Iterator[Metrics]:
    """Train the network with two heads."""
    from gradsurgery.paper.cifar10mnist.train import build

    yield from build(run.settings, run.data_dir).train(run)
