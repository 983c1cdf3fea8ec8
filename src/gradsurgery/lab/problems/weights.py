"""Training a residual network with small weights.

    main = cross-entropy,   aux = |theta|^2 / 2

The mixed method is then training with weight decay. The paper's sizes: ResNet50 on ImageNet, SGD with Nesterov momentum
0.9, batches of 2048, learning rate 0.8 with 5 epochs to warm up and cosine decay, 100 epochs, random crops and flips;
14 lam from 1e-6 to 1e-2, and 0.

theta is all that is trained, scales and offsets of the norms included. Only main sees images: its pass moves the batch
statistics.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import jax
import numpy as np
import optax

from gradsurgery.lab.data.images.source import image_source
from gradsurgery.lab.problem import COMPARED, Problem, Scale
from gradsurgery.lab.problems.classification import (
    cross_entropy,
    descent,
    epochs,
    evaluated_on,
    measured,
    network,
    trained_on,
)
from gradsurgery.lab.run import Setting
from gradsurgery.lab.train.chunking import Parts
from gradsurgery.lab.train.steps import StepTraining
from gradsurgery.lab.train.training import Tree


def half_square(params: Tree) -> jax.Array:
    """Half the squared length of all parameters together."""
    return optax.tree.norm(params, squared=True) / 2


def build(settings: Mapping[str, Setting], data_dir: Path | None) -> StepTraining:
    """The task at given settings."""
    found = image_source(
        str(settings["main_data"]),
        data_dir,
        from_disk=bool(settings["main_from_disk"]),
        classes=str(settings["main_classes"]),
        train_images=int(settings["train_images"]),
        test_images=int(settings["test_images"]),
        pixels=int(settings["pixels"]),
        margin=int(settings["margin"]),
    )
    net = network(settings, int(settings["pixels"]), {"main": found.classes})
    chunks, steps = epochs(settings, len(found))
    parts = Parts(settings)

    def main(params: Tree, extra: Tree, data: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
        logits, after = trained_on(net, params, extra, found.images(data, batch))
        return cross_entropy(logits["main"], found.labels(data, batch)), after

    def aux(params: Tree, extra: Tree, data: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
        return half_square(params), extra

    def measure(params: Tree, extra: Tree, data: Tree, batch: Tree) -> dict[str, jax.Array]:
        logits = evaluated_on(net, params, extra, found.images(data, batch))["main"]
        return {**measured("main", logits, found.labels(data, batch)), "aux": half_square(params)}

    def batches(seed: int, start: int) -> Iterator[Tree]:
        return found.batches(int(settings["batch"]), parts.trained, (seed,), start)

    return StepTraining(
        init=net.init,
        losses=(main, aux),
        data=found.data,
        batches=batches,
        evaluation_batches=lambda held_out: found.evaluation_batches(held_out, *parts.evaluated),
        measure=measure,
        optimiser=descent(settings, chunks * steps, slowed=False),
        chunks=chunks,
        steps=steps,
    )


DEMO: dict[str, Setting] = {
    "main_data": "photographs",
    "main_from_disk": False,
    "main_classes": "all",
    "train_images": 320,
    "test_images": 320,
    "pixels": 16,
    "margin": 2,
    "blocks": "1,1,1",
    "bottleneck": False,
    "width": 8,
    "batch": 64,
    "epochs": 80,
    "warmup_epochs": 5,
    "learning_rate": 0.1,
    "rows_per_epoch": 1,
    "evaluated": 128,
}
LAPTOP: dict[str, Setting] = {
    "main_data": "uoft-cs/cifar10",
    "main_from_disk": False,
    "main_classes": "all",
    "train_images": 2000,
    "test_images": 2000,
    "pixels": 32,
    "margin": 4,
    "blocks": "1,1,1",
    "bottleneck": False,
    "width": 8,
    "batch": 32,
    "epochs": 32,
    "warmup_epochs": 2,
    "learning_rate": 0.1,
    "rows_per_epoch": 1,
    "evaluated": 992,
}
PAPER: dict[str, Setting] = {
    "main_data": "ILSVRC/imagenet-1k",
    "main_from_disk": True,
    "main_classes": "all",
    "train_images": 1_281_167,
    "test_images": 50_000,
    "pixels": 224,
    "margin": 4,
    "blocks": "3,4,6,3",
    "bottleneck": True,
    "width": 64,
    "batch": 2048,
    "epochs": 100,
    "warmup_epochs": 5,
    "learning_rate": 0.8,
    "rows_per_epoch": 1,
    "evaluated": 50_000,
}

problem = Problem(
    name="weights",
    title="a residual network with small weights (paper: ImageNet)",
    main="cross-entropy",
    aux="half the squared length of the weights",
    scales={
        "demo": Scale(settings=DEMO, methods=COMPARED, lams=(3e-3, 1e-2, 3e-2, 6e-2, 0.1), rhos=(0.03,)),
        "laptop": Scale(settings=LAPTOP, methods=COMPARED, lams=(3e-4, 1e-3, 3e-3, 1e-2, 3e-2), rhos=(0.03,)),
        "paper": Scale(
            settings=PAPER,
            methods=COMPARED,
            lams=(0.0, *(float(10**exponent) for exponent in np.linspace(-6, -2, 14))),
            rhos=(0.01,),
        ),
    },
    build=build,
    may_be_zero=frozenset({"warmup_epochs", "margin"}),
)
