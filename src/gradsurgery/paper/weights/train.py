"""``weights``: cross-entropy of an MLP or a residual network, and half the squared length of its parameters."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import optax

from gradsurgery.paper.data.images.load import ImageSource, image_source
from gradsurgery.paper.models import mlp
from gradsurgery.paper.training.chunking import chunk_epochs
from gradsurgery.paper.training.classification import (
    Decay,
    cross_entropy,
    evaluation_logits,
    loss_and_accuracy,
    residual_network,
    sgd,
    train_residual_network,
    training_logits,
)
from gradsurgery.paper.training.training import Training, Tree
from gradsurgery.paper.weights.problem import ImageSettings, Settings


def half_square(params: Tree) -> jax.Array:
    """Half the squared length of all parameters together."""
    return optax.tree.norm(params, squared=True) / 2


def aux(params: Tree, extra: Tree, data: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
    """The auxiliary loss, which sees no images."""
    return half_square(params), extra


def decay_cautiously(lam: Any) -> optax.GradientTransformation:
    """Add lam theta to the update of each element whose size the update reduces anyway."""

    def decay(updates: Tree, params: Tree) -> Tree:
        return jax.tree.map(lambda update, param: update + lam * (update * param >= 0) * param, updates, params)

    return optax.stateless(decay)


@lru_cache(maxsize=1)
def build(settings: Settings, data_dir: Path | None, *, cautious: bool = False) -> Training:
    """Load the images and prepare training, once for all runs of a worker that decay alike."""
    decay = decay_cautiously if cautious else None
    return (_build_mlp if settings.model == "mlp" else _build_resnet)(settings, data_dir, decay)


def _build_mlp(settings: Settings, data_dir: Path | None, decay: Decay | None) -> Training:
    data, classes = mlp.load_data(
        settings.main_data, data_dir, settings.train_images, settings.test_images, settings.main_classes
    )
    examples, inputs = data["train_images"].shape
    chunks, steps = chunk_epochs(settings.epochs, examples, settings.batch, settings.rows_per_epoch)

    def batches(seed: int, start: int) -> Iterator[Any]:
        return mlp.shuffled_epochs(examples, settings.batch, steps * settings.rows_per_epoch, seed, start)

    def evaluate(params: Tree, extra: Tree, data: Tree) -> dict[str, jax.Array]:
        length = half_square(params)
        return {"aux_train": length, "aux_test": length, **mlp.evaluate_main(params, data, settings.evaluated)}

    return Training(
        init=lambda key: (mlp.init(key, inputs, classes), ()),
        losses=(mlp.main, aux),
        data=data,
        batches=batches,
        optimiser=sgd(settings, chunks * steps, decay=decay),
        evaluate=evaluate,
        chunks=chunks,
        steps=steps,
        scan=True,
    )


def load_source(settings: ImageSettings, data_dir: Path | None, role: str = "main") -> ImageSource:
    """The images of main, or of another role with settings such as ``aux_data``, of the size that the network takes."""
    return image_source(
        getattr(settings, f"{role}_data"),
        data_dir,
        from_disk=getattr(settings, f"{role}_from_disk"),
        classes=getattr(settings, f"{role}_classes"),
        train_images=settings.train_images,
        test_images=settings.test_images,
        pixels=settings.pixels,
        margin=settings.margin,
    )


def _build_resnet(settings: Settings, data_dir: Path | None, decay: Decay | None) -> Training:
    source = load_source(settings, data_dir)
    net = residual_network(settings, settings.pixels, {"main": source.classes})

    def main(params: Tree, extra: Tree, data: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
        logits, statistics = training_logits(net, params, extra, source.images(data, batch))
        return cross_entropy(logits["main"], source.labels(data, batch)), statistics

    def measure(params: Tree, extra: Tree, data: Tree, batch: Tree) -> dict[str, jax.Array]:
        logits = evaluation_logits(net, params, extra, source.images(data, batch))["main"]
        return {**loss_and_accuracy("main", logits, source.labels(data, batch)), "aux": half_square(params)}

    return train_residual_network(
        settings, source, source.data, init=net.init, losses=(main, aux), measure=measure, decay=decay
    )
