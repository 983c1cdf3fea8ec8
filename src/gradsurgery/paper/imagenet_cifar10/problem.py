"""Two datasets of images, one residual network with two heads.

    main = cross-entropy on the large dataset,   aux = cross-entropy on the small one

The paper's sizes: ResNet50, ImageNet and CIFAR-10, as in ``weights`` except for the learning rate, 0.8 / (1 + lam); lam
from 1e-3 to 10, "equally split on log scale": we take 9 values. The paper does not say how the two share a network
made for 224 pixels: we enlarge CIFAR-10's images after cropping and flipping, and take as many of them in a step as of
ImageNet's.

Each dataset has its own batch statistics, updated in the pass of its own loss (``training/classification.py`` says
why).
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from gradsurgery.lab import Metrics, Name, Run, Scale, Setting, Switch, problem
from gradsurgery.paper.data.sources import data_sources
from gradsurgery.paper.grid import COMPARED, powers_of_ten
from gradsurgery.paper.weights import problem as weights


@dataclass(frozen=True, kw_only=True)
class Settings(weights.ImageSettings):
    """Settings of ``imagenet-cifar10``: those of the residual network of ``weights``, and the small dataset."""

    aux_data: Name
    """As ``main_data``."""
    aux_from_disk: Switch
    """As ``main_from_disk``."""
    aux_classes: weights.Classes
    """As ``main_classes``."""


def _add_aux(settings: weights.Settings, **changes: Setting) -> Settings:
    """The settings of ``weights``, with a second dataset and these changes."""
    values = {**asdict(settings), "aux_from_disk": False, "aux_classes": "all", **changes}
    del values["model"]
    return Settings(**values)


DEMO = _add_aux(
    weights.DEMO, aux_data="digits", train_images=1437, test_images=360, epochs=10, warmup_epochs=1, evaluated=256
)
LAPTOP = _add_aux(
    weights.LAPTOP_RESNET,
    main_classes="0-4",
    aux_data="uoft-cs/cifar10",
    aux_classes="5-9",
    train_images=8000,
    epochs=3,
    warmup_epochs=1,
    learning_rate=0.3,
    rows_per_epoch=5,
    evaluated=1000,
)
PAPER = _add_aux(weights.PAPER, aux_data="uoft-cs/cifar10")


@problem(
    name="imagenet-cifar10",
    title="two datasets of images, two heads (paper: ImageNet and CIFAR-10)",
    main="cross-entropy on the large dataset",
    aux="cross-entropy on the small one",
    scales={
        "demo": Scale(DEMO, COMPARED, lams=(0.03, 0.1, 0.3, 1.0, 3.0), rhos=(0.03,)),
        "laptop": Scale(LAPTOP, COMPARED, lams=(0.01, 0.1, 0.3, 1.0, 10.0), rhos=(0.03,)),
        "paper": Scale(PAPER, COMPARED, lams=powers_of_ten(-3, 1, 9)),
    },
    data=data_sources,
    share_process=True,
)
def imagenet_cifar10(run: Run) -> Iterator[Metrics]:
    """Train the network with two heads."""
    from gradsurgery.paper.imagenet_cifar10.train import build

    yield from build(run.settings, run.data_dir).train(run)
