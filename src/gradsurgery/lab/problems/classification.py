"""Classifying images with a residual network: what the problems of vision share.

Batch statistics belong to a dataset. Images of one dataset are normalised by their own batch in training, and by the
running statistics of that dataset in evaluation; these move once a step, in the pass of the first loss that sees the
dataset's images. So evaluation normalises as training did, however different two datasets are, and the weight of aux
changes nothing about how main's images are normalised.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.models.functional import Functional
from gradsurgery.lab.models.resnet import ResNet, ResNetConfig
from gradsurgery.lab.run import Setting

Tree = Any

SMALL = 64
"""Pixels up to which images go through a stem for small ones."""


def network(settings: Mapping[str, Setting], pixels: int, heads: Mapping[str, int]) -> Functional[ResNet]:
    """The residual network of the settings ``blocks``, ``bottleneck`` and ``width`` for images so wide and high."""
    text = str(settings["blocks"])
    if not all(number.isdigit() and int(number) for number in text.split(",")):
        raise UserError(f"blocks are their numbers in each stage, as 3,4,6,3, but got {text!r}")
    shape = ResNetConfig(
        tuple(int(number) for number in text.split(",")),
        bottleneck=bool(settings["bottleneck"]),
        width=int(settings["width"]),
        small_images=pixels <= SMALL,
    )
    return Functional(lambda rngs: ResNet(shape, heads, rngs=rngs))


def trained_on(net: Functional[ResNet], params: Tree, statistics: Tree, images: jax.Array) -> tuple[Any, Tree]:
    """Logits by head of images normalised by their own batch, and the running statistics after it."""
    model = net(params, statistics)
    logits = model(_centred(images), training=True)
    return logits, nnx.state(model, nnx.BatchStat)


def evaluated_on(net: Functional[ResNet], params: Tree, statistics: Tree, images: jax.Array) -> Any:
    """Logits by head of images normalised by running statistics."""
    return net(params, statistics)(_centred(images), training=False)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean over a batch."""
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))


def measured(role: str, logits: jax.Array, labels: jax.Array) -> dict[str, jax.Array]:
    """The loss of a batch, and the share of it that is told right."""
    right = jnp.mean(jnp.argmax(logits, axis=-1) == labels)
    return {role: cross_entropy(logits, labels), f"accuracy_{role}": right}


def epochs(settings: Mapping[str, Setting], images: int) -> tuple[int, int]:
    """The chunks of a run and the steps in each: ``rows_per_epoch`` chunks in each of the ``epochs``."""
    batch, rows = int(settings["batch"]), int(settings["rows_per_epoch"])
    if images < batch * rows:
        raise UserError(f"an epoch has {rows} rows of at least one batch of {batch}, but there are {images} images")
    return int(settings["epochs"]) * rows, images // batch // rows


def descent(
    settings: Mapping[str, Setting], steps: int, *, slowed: bool
) -> Callable[[Any], optax.GradientTransformation]:
    """SGD with Nesterov momentum 0.9: ``warmup_epochs`` linear up to ``learning_rate``, then a cosine down to zero.

    Args:
        settings: those of the run.
        steps: of the whole run.
        slowed: whether the learning rate is divided by 1 + lam, as SGD, unlike Adam, takes longer steps along longer
            gradients.
    """
    warmup = int(settings["warmup_epochs"]) * steps // int(settings["epochs"])
    warmup = min(warmup, steps // 2)  # a run cut short warms up, too
    rate = optax.warmup_cosine_decay_schedule(0.0, float(settings["learning_rate"]), warmup, steps)

    def optimiser(lam: Any) -> optax.GradientTransformation:
        scale = 1 / (1 + lam) if slowed else 1.0
        return optax.sgd(lambda step: scale * rate(step), momentum=0.9, nesterov=True)

    return optimiser


def _centred(images: jax.Array) -> jax.Array:
    """Images from 0 to 1 with about mean 0 and variance 1."""
    return (images - 0.45) / 0.25
