"""``cifar10mnist``: a residual network with two heads, for the picture and for the digit overlaid on it."""

from functools import lru_cache
from pathlib import Path

import jax

from gradsurgery.paper.cifar10mnist.problem import Settings
from gradsurgery.paper.data.images.arrays import ImageArrays
from gradsurgery.paper.data.images.load import load_images
from gradsurgery.paper.data.images.memory import MemorySource
from gradsurgery.paper.data.images.overlay import overlay, place_digits
from gradsurgery.paper.training.classification import (
    cross_entropy,
    evaluation_logits,
    loss_and_accuracy,
    residual_network,
    train_residual_network,
    training_logits,
)
from gradsurgery.paper.training.training import Loss, Training, Tree


def pictures_and_digits(
    settings: Settings, data_dir: Path | None, *, held_out: bool
) -> tuple[ImageArrays, ImageArrays]:
    """The pictures to train on, or the held-out ones, and the digit over each of them."""
    count = settings.test_images if held_out else settings.train_images
    pictures, digits = (
        load_images(name, data_dir, held_out=held_out, count=count) for name in (settings.main_data, settings.aux_data)
    )
    return pictures, place_digits(pictures, digits, held_out=held_out)


@lru_cache(maxsize=1)
def build(settings: Settings, data_dir: Path | None) -> Training:
    """Load pictures and digits, and prepare training."""
    train_pictures, train_digits = pictures_and_digits(settings, data_dir, held_out=False)
    test_pictures, test_digits = pictures_and_digits(settings, data_dir, held_out=True)
    pixels = train_pictures.pixels.shape[1]
    pictures = MemorySource(train_pictures, test_pictures, size=pixels, margin=settings.margin)
    digits = MemorySource(train_digits, test_digits, size=pixels, margin=0)
    net = residual_network(settings, pixels, {"main": pictures.classes, "aux": digits.classes})

    def images(data: Tree, batch: Tree) -> jax.Array:
        return overlay(pictures.images(data["pictures"], batch), data["digits"]["pixels"][batch["index"]])

    def labels(data: Tree, batch: Tree) -> dict[str, jax.Array]:
        return {"main": pictures.labels(data["pictures"], batch), "aux": digits.labels(data["digits"], batch)}

    def loss(role: str) -> Loss:
        def role_loss(params: Tree, extra: Tree, data: Tree, batch: Tree) -> tuple[jax.Array, Tree]:
            logits, statistics = training_logits(net, params, extra, images(data, batch))
            return cross_entropy(logits[role], labels(data, batch)[role]), statistics if role == "main" else extra

        return role_loss

    def measure(params: Tree, extra: Tree, data: Tree, batch: Tree) -> dict[str, jax.Array]:
        logits, expected = evaluation_logits(net, params, extra, images(data, batch)), labels(data, batch)
        main, aux = (loss_and_accuracy(role, logits[role], of_role) for role, of_role in expected.items())
        return main | aux

    return train_residual_network(
        settings,
        pictures,
        {"pictures": pictures.data, "digits": digits.data},
        init=net.init,
        losses=(loss("main"), loss("aux")),
        measure=measure,
        divide_by_lam=True,
    )
