"""Two labels for one image: a digit laid over a picture, and a residual network with two heads.

    main = cross-entropy of the picture's label,   aux = cross-entropy of the digit's

The paper's sizes: MNIST over CIFAR-10, ResNet18; SGD with Nesterov momentum 0.9, batches of 256, 100 epochs, learning
rate 0.1 / (1 + lam) with 5 epochs to warm up and cosine decay; rho = 0.001; lam from 1e-3 to 1e3, "split equally on log
scale", of which we take 13. How digits are laid over pictures is told in ``lab/vision/overlay.py``.

Both losses see the same images, so there is one set of batch statistics, moved in main's pass.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import jax
import numpy as np

from gradsurgery.lab.data.images.arrays import ImageArrays
from gradsurgery.lab.data.images.memory import MemorySource
from gradsurgery.lab.data.images.overlay import overlay, place_digits
from gradsurgery.lab.data.images.source import load_images
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
from gradsurgery.lab.train.training import Loss, Tree

ROLES = ("main", "aux")


def pictures_and_digits(
    settings: Mapping[str, Setting], data_dir: Path | None, *, held_out: bool
) -> tuple[ImageArrays, ImageArrays]:
    """The backgrounds to train on, or those held out, and the digit over each of them."""
    count = int(settings["test_images" if held_out else "train_images"])
    pictures, digits = (
        load_images(str(settings[f"{role}_data"]), data_dir, held_out=held_out, count=count) for role in ROLES
    )
    return pictures, place_digits(pictures, digits, held_out=held_out)


def build(settings: Mapping[str, Setting], data_dir: Path | None) -> StepTraining:
    """The task at given settings."""
    both = [pictures_and_digits(settings, data_dir, held_out=held_out) for held_out in (False, True)]
    pictures, laid = zip(*both, strict=True)
    pixels = pictures[0].pixels.shape[1]
    backgrounds = MemorySource(*pictures, size=pixels, margin=int(settings["margin"]))
    net = network(settings, pixels, {"main": backgrounds.classes, "aux": laid[0].classes})
    chunks, steps = epochs(settings, len(backgrounds))
    parts = Parts(settings)

    def images(data: Tree, batch: Tree) -> jax.Array:
        return overlay(backgrounds.images(data["backgrounds"], batch), data["inks"]["pixels"][batch["index"]])

    def labels(data: Tree, batch: Tree) -> dict[str, jax.Array]:
        return {"main": backgrounds.labels(data["backgrounds"], batch), "aux": data["inks"]["labels"][batch["index"]]}

    def loss(role: str) -> Loss:
        def of(params: Tree, extra: Tree, data: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
            logits, after = trained_on(net, params, extra, images(data, batch))
            return cross_entropy(logits[role], labels(data, batch)[role]), after if role == "main" else extra

        return of

    def measure(params: Tree, extra: Tree, data: Tree, batch: Tree) -> dict[str, jax.Array]:
        logits, right = evaluated_on(net, params, extra, images(data, batch)), labels(data, batch)
        return measured("main", logits["main"], right["main"]) | measured("aux", logits["aux"], right["aux"])

    def batches(seed: int, start: int) -> Iterator[Tree]:
        return backgrounds.batches(int(settings["batch"]), parts.trained, (seed,), start)

    return StepTraining(
        init=net.init,
        losses=[loss(role) for role in ROLES],
        data={
            "backgrounds": backgrounds.data,
            "inks": {name: np.concatenate([getattr(one, name) for one in laid]) for name in ("pixels", "labels")},
        },
        batches=batches,
        evaluation_batches=lambda held_out: backgrounds.evaluation_batches(held_out, *parts.evaluated),
        measure=measure,
        optimiser=descent(settings, chunks * steps, slowed=True),
        chunks=chunks,
        steps=steps,
    )


problem = Problem(
    name="cifar10mnist",
    title="a digit laid over a picture, two labels (paper: Cifar10Mnist)",
    main="cross-entropy of the picture's label",
    aux="cross-entropy of the digit's",
    scales={
        "demo": Scale(
            settings={
                "main_data": "photographs",
                "aux_data": "digits",
                "train_images": 1600,
                "test_images": 400,
                "blocks": "1,1,1",
                "bottleneck": False,
                "width": 8,
                "batch": 64,
                "epochs": 10,
                "warmup_epochs": 1,
                "learning_rate": 0.4,
                "margin": 2,
                "rows_per_epoch": 2,
                "evaluated": 256,
            },
            methods=COMPARED,
            lams=(0.3, 1.0, 3.0, 10.0, 30.0),
            rhos=(0.03,),
        ),
        "laptop": Scale(
            settings={
                "main_data": "uoft-cs/cifar10",
                "aux_data": "ylecun/mnist",
                "train_images": 8000,
                "test_images": 2000,
                "blocks": "1,1,1",
                "bottleneck": False,
                "width": 8,
                "batch": 32,
                "epochs": 4,
                "warmup_epochs": 1,
                "learning_rate": 0.3,
                "margin": 4,
                "rows_per_epoch": 5,
                "evaluated": 1000,
            },
            methods=COMPARED,
            lams=(0.1, 0.3, 1.0, 3.0, 10.0),
            rhos=(0.03,),
        ),
        "paper": Scale(
            settings={
                "main_data": "uoft-cs/cifar10",
                "aux_data": "ylecun/mnist",
                "train_images": 50_000,
                "test_images": 10_000,
                "blocks": "2,2,2,2",
                "bottleneck": False,
                "width": 64,
                "batch": 256,
                "epochs": 100,
                "warmup_epochs": 5,
                "learning_rate": 0.1,
                "margin": 4,
                "rows_per_epoch": 1,
                "evaluated": 10_000,
            },
            methods=COMPARED,
            lams=tuple(float(10**exponent) for exponent in np.arange(-3, 3.1, 0.5)),
            rhos=(0.001,),
        ),
    },
    build=build,
    may_be_zero=frozenset({"warmup_epochs", "margin"}),
)
