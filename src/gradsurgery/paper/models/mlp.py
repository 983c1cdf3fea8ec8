"""An MLP on flattened images, 256 and 128 units wide: what ``lipschitz`` and ``weights`` share."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gradsurgery.paper.data.images.load import load_images
from gradsurgery.paper.data.shuffle import epoch_batches

Params = list[dict[str, jax.Array]]
Data = dict[str, jax.Array]

HIDDEN = (256, 128)


def init(key: jax.Array, inputs: int, classes: int) -> Params:
    """He's initialisation."""
    widths = [inputs, *HIDDEN, classes]
    keys = jax.random.split(key, len(widths) - 1)
    return [
        {"weight": jax.random.normal(layer_key, (n, m)) * jnp.sqrt(2 / n), "bias": jnp.zeros(m)}
        for layer_key, n, m in zip(keys, widths, widths[1:], strict=False)
    ]


def logits(params: Params, inputs: jax.Array) -> jax.Array:
    """Apply the network."""
    for layer in params[:-1]:
        inputs = jax.nn.relu(inputs @ layer["weight"] + layer["bias"])
    return inputs @ params[-1]["weight"] + params[-1]["bias"]


def cross_entropy(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean over a batch."""
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits(params, images), labels))


def main(params: Params, extra: Any, data: Data, batch: jax.Array) -> tuple[jax.Array, Any]:
    """Cross-entropy on a batch, given as indices."""
    return cross_entropy(params, data["train_images"][batch], data["train_labels"][batch]), extra


def evaluate_main(params: Params, data: Data, evaluated: int) -> dict[str, jax.Array]:
    """Losses and accuracies on the first ``evaluated`` images of each split."""
    metrics = {}
    for split in ("train", "test"):
        images, labels = data[f"{split}_images"][:evaluated], data[f"{split}_labels"][:evaluated]
        metrics[f"main_{split}"] = cross_entropy(params, images, labels)
        metrics[f"accuracy_{split}"] = jnp.mean(jnp.argmax(logits(params, images), axis=1) == labels)
    return metrics


def load_data(
    name: str, data_dir: Path | None, train_images: int = 10**9, test_images: int = 10**9, classes: str = "all"
) -> tuple[Data, int]:
    """Load training and held-out images as rows of numbers from 0 to 1. Returns them and the number of classes.

    For the arguments see ``data.images.load.image_source``.
    """
    data, class_count = {}, 0
    for split, limit in (("train", train_images), ("test", test_images)):
        images = load_images(name, data_dir, held_out=split == "test", count=limit, classes=classes)
        class_count = max(class_count, images.classes)
        data[f"{split}_images"] = jnp.asarray(images.pixels.reshape(len(images), -1) / np.float32(255))
        data[f"{split}_labels"] = jnp.asarray(images.labels)
    return data, class_count


def shuffled_epochs(examples: int, batch: int, steps: int, seed: int, start: int) -> Iterator[Any]:
    """Yield the indices of each batch from step ``start`` on, in epochs of ``steps`` batches."""
    for epoch in count(start // steps):
        first = start % steps if epoch == start // steps else 0
        yield from epoch_batches(examples, batch, seed, epoch)[first:steps]
