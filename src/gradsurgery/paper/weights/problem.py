"""A network with small weights.

    main = cross-entropy,   aux = |theta|^2 / 2

Mixed training is then training with weight decay. The paper's sizes: ResNet50 on ImageNet, SGD with Nesterov momentum
0.9, batches of 2048, learning rate 0.8 with 5 epochs of warm-up and cosine decay, 100 epochs, random crops and flips;
14 lam from 1e-6 to 1e-2, and 0.

theta is every trained parameter, including the scales and offsets of the norms. Only main sees images, so its pass
updates the batch statistics.

The scale ``laptop`` trains the MLP of ``lipschitz`` on MNIST, where a batch of 256 takes 3 ms. In the same time, two
cores train a residual network for as many steps only with batches of 32, whose noise hides the differences between
methods. ``--set model=resnet`` trains it, on CIFAR-10.

A baseline that it alone offers: ``--methods bloop,gradsurgery.paper.weights.cautious:cautious``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from gradsurgery.lab import Count, Metrics, Name, Run, Scale, Switch, Text, one_of, problem
from gradsurgery.paper.data.sources import data_sources
from gradsurgery.paper.grid import COMPARED, powers_of_ten
from gradsurgery.paper.training.residual_network_settings import ResidualNetworkSettings
from gradsurgery.paper.weights.cautious import cautious

Classes = Annotated[str, Text(r"all|\d+-\d+", "all, or the first and the last class such as 0-4")]


@dataclass(frozen=True, kw_only=True)
class ImageSettings(ResidualNetworkSettings):
    """A residual network and the images of main."""

    main_data: Name
    """``digits``, ``photographs``, or the hub id of a dataset with columns ``image`` or ``img``, and ``label``."""
    main_from_disk: Switch
    """True to read images from disk while training, false to keep them on the device."""
    main_classes: Classes
    """``all``, or the first and the last class to keep, such as ``0-4``."""
    pixels: Count
    """Width and height to which images are scaled."""


@dataclass(frozen=True, kw_only=True)
class Settings(ImageSettings):
    """Settings of ``weights``."""

    model: Annotated[str, one_of("mlp", "resnet")]
    """``resnet``; or ``mlp``, an MLP of 256 and 128 units on whole images in memory, without crops and flips."""


DEMO = Settings(
    model="resnet",
    main_data="photographs",
    main_from_disk=False,
    main_classes="all",
    train_images=320,
    test_images=320,
    pixels=16,
    margin=2,
    blocks="1,1,1",
    bottleneck=False,
    width=8,
    batch=64,
    epochs=80,
    warmup_epochs=5,
    learning_rate=0.1,
    rows_per_epoch=1,
    evaluated=128,
)
LAPTOP_RESNET = replace(
    DEMO,
    main_data="uoft-cs/cifar10",
    train_images=2000,
    test_images=2000,
    pixels=32,
    margin=4,
    batch=32,
    epochs=32,
    warmup_epochs=2,
    evaluated=992,
)
LAPTOP = replace(
    LAPTOP_RESNET,
    model="mlp",
    main_data="ylecun/mnist",
    train_images=60_000,
    test_images=10_000,
    pixels=28,
    batch=256,
    epochs=10,
    warmup_epochs=1,
    learning_rate=0.05,
    rows_per_epoch=2,
    evaluated=10_000,
)
PAPER = replace(
    LAPTOP_RESNET,
    main_data="ILSVRC/imagenet-1k",
    main_from_disk=True,
    train_images=1_281_167,
    test_images=50_000,
    pixels=224,
    blocks="3,4,6,3",
    bottleneck=True,
    width=64,
    batch=2048,
    epochs=100,
    warmup_epochs=5,
    learning_rate=0.8,
    evaluated=50_000,
)


@problem(
    name="weights",
    title="a network with small weights (paper: ResNet50 on ImageNet)",
    main="cross-entropy",
    aux="half the squared length of the weights",
    scales={
        "demo": Scale(DEMO, COMPARED, lams=(3e-3, 1e-2, 3e-2, 6e-2, 0.1), rhos=(0.03,)),
        "laptop": Scale(
            LAPTOP, COMPARED, lams=(3e-4, 1e-3, 3e-3, 1e-2, 3e-2), alternatives={("model", "resnet"): LAPTOP_RESNET}
        ),
        "paper": Scale(PAPER, COMPARED, lams=powers_of_ten(-6, -2, 14)),
    },
    data=data_sources,
    share_process=True,
)
def weights(run: Run) -> Iterator[Metrics]:
    """Train the MLP or the residual network."""
    from gradsurgery.paper.weights.train import build

    yield from build(run.settings, run.data_dir, cautious=isinstance(run.method, cautious)).train(run)
