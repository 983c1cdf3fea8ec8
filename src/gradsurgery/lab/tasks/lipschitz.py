"""``lipschitz``: an MLP, its cross-entropy, and the logarithm of the product of its spectral norms."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gradsurgery.lab.data.hub import load
from gradsurgery.lab.data.images.builtin import raw_digits
from gradsurgery.lab.data.shuffle import epoch_batches
from gradsurgery.lab.models.spectral_norm import initial_basis, spectral_norm
from gradsurgery.lab.problems.lipschitz import Settings
from gradsurgery.lab.train.chunking import chunk_epochs
from gradsurgery.lab.train.schedule import warmup_cosine
from gradsurgery.lab.train.training import Training

Params = list[dict[str, jax.Array]]
Data = dict[str, jax.Array]

HIDDEN = (256, 128)
CLASSES = 10


def init(key: jax.Array, inputs: int) -> tuple[Params, list[jax.Array]]:
    """He's initialisation, and for each layer the vectors that its power iteration starts from."""
    widths = [inputs, *HIDDEN, CLASSES]
    keys = jax.random.split(key, len(widths) - 1)
    params = [
        {"weight": jax.random.normal(layer_key, (n, m)) * jnp.sqrt(2 / n), "bias": jnp.zeros(m)}
        for layer_key, n, m in zip(keys, widths, widths[1:], strict=False)
    ]
    return params, [initial_basis(layer["weight"]) for layer in params]


def logits(params: Params, inputs: jax.Array) -> jax.Array:
    """Apply the network."""
    for layer in params[:-1]:
        inputs = jax.nn.relu(inputs @ layer["weight"] + layer["bias"])
    return inputs @ params[-1]["weight"] + params[-1]["bias"]


def cross_entropy(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean over a batch."""
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits(params, images), labels))


def main(params: Params, bases: list[jax.Array], data: Data, batch: jax.Array) -> tuple[jax.Array, Any]:
    """Cross-entropy on a batch, given as indices."""
    return cross_entropy(params, data["train_images"][batch], data["train_labels"][batch]), bases


def aux(params: Params, bases: list[jax.Array], data: Data, batch: jax.Array) -> tuple[jax.Array, Any]:
    """Logarithm of the product of spectral norms, by power iteration."""
    pairs = [spectral_norm(layer["weight"], basis) for layer, basis in zip(params, bases, strict=True)]
    norms, after = zip(*pairs, strict=True)
    return jnp.sum(jnp.log(jnp.stack(norms))), list(after)


def evaluate(params: Params, bases: list[jax.Array], data: Data) -> dict[str, jax.Array]:
    """Losses and accuracies, with exact norms (SVD); aux is the same on train and test data."""
    norms = jnp.stack([jnp.linalg.svd(layer["weight"], compute_uv=False)[0] for layer in params])
    metrics = {"aux_train": jnp.sum(jnp.log(norms)), "aux_test": jnp.sum(jnp.log(norms))}
    for split in ("train", "test"):
        images, labels = data[f"{split}_images"][:10_000], data[f"{split}_labels"][:10_000]
        metrics[f"main_{split}"] = cross_entropy(params, images, labels)
        metrics[f"accuracy_{split}"] = jnp.mean(jnp.argmax(logits(params, images), axis=1) == labels)
    return metrics


def digits() -> Data:
    """scikit-learn's 8 x 8 digits: 1,437 to train and 360 to test, drawn once and for all."""
    arrays = []
    for held_out in (False, True):
        pixels, labels = raw_digits(held_out)
        arrays += [pixels.reshape(len(labels), -1) / 16, labels]
    return _split(*arrays)


def mnist(data_dir: Path | None) -> Data:
    """MNIST, from the hub or the folder that stands in for it."""
    arrays = []
    for split in ("train", "test"):
        rows = load("ylecun/mnist", split, ("image", "label"), data_dir)[:]
        arrays += [np.asarray(rows["image"]).reshape(len(rows["label"]), -1) / 255, rows["label"].astype(np.int32)]
    return _split(*arrays)


def shuffled_epochs(examples: int, batch: int, steps: int, seed: int, start: int) -> Iterator[Any]:
    """Yield the indices of each batch from step ``start`` on, in epochs of ``steps`` batches."""
    for epoch in count(start // steps):
        first = start % steps if epoch == start // steps else 0
        yield from epoch_batches(examples, batch, seed, epoch)[first:steps]


def build(settings: Settings, data_dir: Path | None) -> Training:
    """Load the digits and prepare training."""
    data = digits() if settings.data == "digits" else mnist(data_dir)
    examples, inputs = data["train_images"].shape
    chunks, steps = chunk_epochs(settings.epochs, examples, settings.batch, settings.rows_per_epoch)
    schedule = warmup_cosine(
        settings.learning_rate, warmup_epochs=settings.warmup_epochs, epochs=settings.epochs, steps=chunks * steps
    )

    def batches(seed: int, start: int) -> Iterator[Any]:
        return shuffled_epochs(examples, settings.batch, steps * settings.rows_per_epoch, seed, start)

    return Training(
        init=lambda key: init(key, inputs),
        losses=(main, aux),
        data=data,
        batches=batches,
        optimiser=lambda lam: optax.adam(schedule),
        evaluate=evaluate,
        chunks=chunks,
        steps=steps,
        scan=True,
    )


def _split(train_images: Any, train_labels: Any, test_images: Any, test_labels: Any) -> Data:
    return {
        "train_images": jnp.asarray(train_images, jnp.float32),
        "train_labels": jnp.asarray(train_labels),
        "test_images": jnp.asarray(test_images, jnp.float32),
        "test_labels": jnp.asarray(test_labels),
    }
