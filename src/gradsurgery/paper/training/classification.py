"""Image classification with a residual network, shared by the vision tasks.

Batch statistics belong to a dataset. In training, images are normalised by the statistics of their own batch; in
evaluation, by the running statistics of their dataset. These are updated once a step, in the pass of the first loss
that sees the dataset's images. So evaluation normalises as training did, however different two datasets are, and the
weight of aux does not affect how main's images are normalised.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from gradsurgery.paper.data.shuffle import Seeds
from gradsurgery.paper.models.functional import Functional
from gradsurgery.paper.models.resnet import ResNet, ResNetConfig
from gradsurgery.paper.training.batch_slices import BatchSlices
from gradsurgery.paper.training.chunking import chunk_epochs
from gradsurgery.paper.training.evaluation import batch_by_batch
from gradsurgery.paper.training.residual_network_settings import ResidualNetworkSettings
from gradsurgery.paper.training.schedule import warmup_cosine
from gradsurgery.paper.training.training import Loss, Training, Tree

SMALL = 64
"""Images up to this many pixels wide go through the stem for small images."""


def residual_network(settings: ResidualNetworkSettings, pixels: int, heads: Mapping[str, int]) -> Functional[ResNet]:
    """Make the network for square images of this width; ``heads`` has the number of classes of each head, by name."""
    config = ResNetConfig(
        tuple(int(count) for count in settings.blocks.split(",")),
        bottleneck=settings.bottleneck,
        width=settings.width,
        small_images=pixels <= SMALL,
    )
    return Functional(lambda rngs: ResNet(config, heads, rngs=rngs))


def training_logits(net: Functional[ResNet], params: Tree, statistics: Tree, images: jax.Array) -> tuple[Any, Tree]:
    """Logits by head, normalised by the batch's own statistics, and the updated running statistics."""
    model = net(params, statistics)
    logits = model(_standardise(images), training=True)
    return logits, nnx.state(model, nnx.BatchStat)


def evaluation_logits(net: Functional[ResNet], params: Tree, statistics: Tree, images: jax.Array) -> Any:
    """Logits by head, normalised by the running statistics."""
    return net(params, statistics)(_standardise(images), training=False)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean over a batch."""
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, labels))


def loss_and_accuracy(role: str, logits: jax.Array, labels: jax.Array) -> dict[str, jax.Array]:
    """Metrics of a batch."""
    accuracy = jnp.mean(jnp.argmax(logits, axis=-1) == labels)
    return {role: cross_entropy(logits, labels), f"accuracy_{role}": accuracy}


Decay: TypeAlias = Callable[[Any], optax.GradientTransformation]
"""lam -> what to do to an update before it is multiplied by the learning rate."""


class Source(Protocol):
    """What batches are made of; ``MemorySource`` and ``DiskSource`` describe the methods."""

    def __len__(self) -> int: ...

    def batches(self, batch: int, shard: slice, seeds: Seeds, start: int) -> Iterator[Tree]: ...

    def evaluation_batches(self, held_out: bool, number: int, batch: int, shard: slice) -> Iterator[Tree]: ...


def train_residual_network(
    settings: ResidualNetworkSettings,
    source: Source,
    data: Tree,
    *,
    init: Callable[[jax.Array], tuple[Tree, Tree]],
    losses: Sequence[Loss],
    measure: Callable[[Tree, Tree, Tree, Tree], Mapping[str, jax.Array]],
    divide_by_lam: bool = False,
    decay: Decay | None = None,
) -> Training:
    """Make the task: SGD with Nesterov momentum 0.9, warm-up and cosine decay.

    ``measure`` maps (params, extra, data, batch) to the mean metrics of a batch of an evaluation. ``divide_by_lam``
    divides the learning rate by 1 + lam: unlike Adam, SGD takes longer steps along longer gradients. ``decay`` is
    weight decay apart from the gradients. For the other arguments see ``Training``.
    """
    chunks, steps = chunk_epochs(settings.epochs, len(source), settings.batch, settings.rows_per_epoch)
    slices = BatchSlices(settings.batch, settings.evaluated)
    return Training(
        init=init,
        losses=losses,
        data=data,
        batches=lambda seed, start: source.batches(settings.batch, slices.training, (seed,), start),
        optimiser=sgd(settings, chunks * steps, divide_by_lam=divide_by_lam, decay=decay),
        evaluate=batch_by_batch(measure, lambda held_out: source.evaluation_batches(held_out, *slices.evaluation)),
        chunks=chunks,
        steps=steps,
        scan=False,
    )


def sgd(
    settings: ResidualNetworkSettings, steps: int, *, divide_by_lam: bool = False, decay: Decay | None = None
) -> Callable[[Any], optax.GradientTransformation]:
    """The optimiser of ``train_residual_network``, for a run of this many steps."""
    schedule = warmup_cosine(
        settings.learning_rate, warmup_epochs=settings.warmup_epochs, epochs=settings.epochs, steps=steps
    )

    def optimiser(lam: Any) -> optax.GradientTransformation:
        scale = 1 / (1 + lam) if divide_by_lam else 1.0
        momentum = optax.trace(decay=0.9, nesterov=True)
        decays = [decay(lam)] if decay else []
        return optax.chain(momentum, *decays, optax.scale_by_learning_rate(lambda step: scale * schedule(step)))

    return optimiser


def _standardise(images: jax.Array) -> jax.Array:
    """Scale images from 0 to 1 to about mean 0 and variance 1."""
    return (images - 0.45) / 0.25
