"""``imagenet-cifar10``: a residual network with two heads, each trained on its own dataset."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import jax

from gradsurgery.paper.data.images.source import ImageSource, image_source
from gradsurgery.paper.imagenet_cifar10.problem import Settings
from gradsurgery.paper.training.batch_slices import BatchSlices
from gradsurgery.paper.training.chunking import chunk_epochs
from gradsurgery.paper.training.classification import (
    cross_entropy,
    evaluation_logits,
    loss_and_accuracy,
    residual_network,
    sgd,
    training_logits,
)
from gradsurgery.paper.training.evaluation import batch_by_batch
from gradsurgery.paper.training.training import Loss, Training, Tree

ROLES = ("main", "aux")


@lru_cache(maxsize=1)
def build(settings: Settings, data_dir: Path | None) -> Training:
    """Load both datasets and prepare training."""

    def load(name: str, from_disk: bool, classes: str) -> ImageSource:
        return image_source(
            name,
            data_dir,
            from_disk=from_disk,
            classes=classes,
            train_images=settings.train_images,
            test_images=settings.test_images,
            pixels=settings.pixels,
            margin=settings.margin,
        )

    sources = {
        "main": load(settings.main_data, settings.main_from_disk, settings.main_classes),
        "aux": load(settings.aux_data, settings.aux_from_disk, settings.aux_classes),
    }
    heads = {role: source.classes for role, source in sources.items()}
    net = residual_network(settings, settings.pixels, heads)
    chunks, steps = chunk_epochs(settings.epochs, len(sources["main"]), settings.batch, settings.rows_per_epoch)
    slices = BatchSlices(settings.batch, settings.evaluated)

    def init(key: jax.Array) -> tuple[Tree, Tree]:
        params, statistics = net.init(key)
        return params, dict.fromkeys(ROLES, statistics)

    def loss(role: str) -> Loss:
        source = sources[role]

        def role_loss(params: Tree, extra: Tree, data: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
            images = source.images(data[role], batch[role])
            logits, statistics = training_logits(net, params, extra[role], images)
            return cross_entropy(logits[role], source.labels(data[role], batch[role])), {**extra, role: statistics}

        return role_loss

    def measure(params: Tree, extra: Tree, data: Tree, batch: Tree) -> dict[str, jax.Array]:
        metrics: dict[str, jax.Array] = {}
        for role, source in sources.items():
            images, labels = source.images(data[role], batch[role]), source.labels(data[role], batch[role])
            logits = evaluation_logits(net, params, extra[role], images)[role]
            metrics |= loss_and_accuracy(role, logits, labels)
        return metrics

    def by_role(streams: list[Iterator[Tree]]) -> Iterator[Tree]:
        return (dict(zip(ROLES, batch, strict=True)) for batch in zip(*streams, strict=True))

    def batches(seed: int, start: int) -> Iterator[Tree]:
        return by_role(
            [
                source.batches(settings.batch, slices.training, (seed, index), start)
                for index, source in enumerate(sources.values())
            ]
        )

    def evaluation_batches(held_out: bool) -> Iterator[Tree]:
        return by_role([source.evaluation_batches(held_out, *slices.evaluation) for source in sources.values()])

    return Training(
        init=init,
        losses=[loss(role) for role in ROLES],
        data={role: source.data for role, source in sources.items()},
        batches=batches,
        optimiser=sgd(settings, chunks * steps, divide_by_lam=True),
        evaluate=batch_by_batch(measure, evaluation_batches),
        chunks=chunks,
        steps=steps,
        scan=False,
    )
