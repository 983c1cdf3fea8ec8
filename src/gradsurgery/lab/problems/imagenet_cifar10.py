"""Two datasets of images, one residual network with two heads.

    main = cross-entropy on the large dataset,   aux = cross-entropy on the small one

The paper's sizes: ResNet50, ImageNet and CIFAR-10, all as in ``weights`` but the learning rate, which is 0.8 /
(1 + lam); lam from 1e-3 to 10, "equally split on log scale", of which we take 9. It does not say how the two share a
network made for 224 pixels: we enlarge CIFAR-10's images to those, after they were cropped and flipped, and take as
many of them in a step as of ImageNet's.

Each dataset has batch statistics of its own, moved in the pass of its own loss (why, is told in
``lab/vision/classification.py``).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import jax
import numpy as np

from gradsurgery.lab.data.images.source import image_source
from gradsurgery.lab.problem import COMPARED, Problem, Scale
from gradsurgery.lab.problems import weights
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


def build(settings: Mapping[str, Setting], data_dir: Path | None) -> StepTraining:
    """The task at given settings."""
    found = {
        role: image_source(
            str(settings[f"{role}_data"]),
            data_dir,
            from_disk=bool(settings[f"{role}_from_disk"]),
            classes=str(settings[f"{role}_classes"]),
            train_images=int(settings["train_images"]),
            test_images=int(settings["test_images"]),
            pixels=int(settings["pixels"]),
            margin=int(settings["margin"]),
        )
        for role in ROLES
    }
    net = network(settings, int(settings["pixels"]), {role: one.classes for role, one in found.items()})
    chunks, steps = epochs(settings, len(found["main"]))
    parts = Parts(settings)

    def init(key: jax.Array) -> tuple[Tree, Tree]:
        params, statistics = net.init(key)
        return params, dict.fromkeys(ROLES, statistics)

    def loss(role: str) -> Loss:
        def of(params: Tree, extra: Tree, data: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
            images = found[role].images(data[role], batch[role])
            logits, after = trained_on(net, params, extra[role], images)
            return cross_entropy(logits[role], found[role].labels(data[role], batch[role])), {**extra, role: after}

        return of

    def measure(params: Tree, extra: Tree, data: Tree, batch: Tree) -> dict[str, jax.Array]:
        seen: dict[str, jax.Array] = {}
        for role, one in found.items():
            images, labels = one.images(data[role], batch[role]), one.labels(data[role], batch[role])
            logits = evaluated_on(net, params, extra[role], images)[role]
            seen |= measured(role, logits, labels)
        return seen

    def batches(seed: int, start: int) -> Iterator[Tree]:
        streams = [
            one.batches(int(settings["batch"]), parts.trained, (seed, number), start)
            for number, one in enumerate(found.values())
        ]
        return (dict(zip(ROLES, both, strict=True)) for both in zip(*streams, strict=True))

    def evaluation_batches(held_out: bool) -> Iterator[Tree]:
        streams = [one.evaluation_batches(held_out, *parts.evaluated) for one in found.values()]
        return (dict(zip(ROLES, both, strict=True)) for both in zip(*streams, strict=True))

    return StepTraining(
        init=init,
        losses=[loss(role) for role in ROLES],
        data={role: one.data for role, one in found.items()},
        batches=batches,
        evaluation_batches=evaluation_batches,
        measure=measure,
        optimiser=descent(settings, chunks * steps, slowed=True),
        chunks=chunks,
        steps=steps,
    )


def _with_aux(settings: Mapping[str, Setting], **changed: Setting) -> dict[str, Setting]:
    return {**settings, "aux_from_disk": False, "aux_classes": "all", **changed}


problem = Problem(
    name="imagenet-cifar10",
    title="two datasets of images, two heads (paper: ImageNet and CIFAR-10)",
    main="cross-entropy on the large dataset",
    aux="cross-entropy on the small one",
    scales={
        "demo": Scale(
            settings=_with_aux(
                weights.DEMO,
                aux_data="digits",
                train_images=1437,
                test_images=360,
                epochs=10,
                warmup_epochs=1,
                evaluated=256,
            ),
            methods=COMPARED,
            lams=(0.03, 0.1, 0.3, 1.0, 3.0),
            rhos=(0.03,),
        ),
        "laptop": Scale(
            settings=_with_aux(
                weights.LAPTOP,
                main_classes="0-4",
                aux_data="uoft-cs/cifar10",
                aux_classes="5-9",
                train_images=8000,
                epochs=3,
                warmup_epochs=1,
                learning_rate=0.3,
                rows_per_epoch=5,
                evaluated=1000,
            ),
            methods=COMPARED,
            lams=(0.01, 0.1, 0.3, 1.0, 10.0),
            rhos=(0.03,),
        ),
        "paper": Scale(
            settings=_with_aux(weights.PAPER, aux_data="uoft-cs/cifar10"),
            methods=COMPARED,
            lams=tuple(float(10**exponent) for exponent in np.linspace(-3, 1, 9)),
            rhos=(0.01,),
        ),
    },
    build=build,
    may_be_zero=weights.problem.may_be_zero,
)
