"""Training a smooth network: an MLP on digits, with a bound on its Lipschitz constant as auxiliary loss.

    main = cross-entropy,   aux = log prod_l |W_l|_2

The paper's sizes: 784 inputs (printed as 728), 256, 128, 10; Adam at 3e-4, 100 epochs of batches of 256, 5 of them to
warm up, cosine decay, lam from 1e-4 to 1.
"""

from collections.abc import Mapping
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
from gradsurgery.lab.problem import COMPARED, Problem, Scale
from gradsurgery.lab.run import Setting
from gradsurgery.lab.train.loops import LoopTraining

Params = list[dict[str, jax.Array]]
Data = dict[str, jax.Array]

HIDDEN = (256, 128)
CLASSES = 10


def init(key: jax.Array, inputs: int) -> tuple[Params, list[jax.Array]]:
    """Layers with He's initialisation, and a block for each to start the power iteration from."""
    widths = [inputs, *HIDDEN, CLASSES]
    keys = jax.random.split(key, len(widths) - 1)
    params = [
        {"weight": jax.random.normal(one, (n, m)) * jnp.sqrt(2 / n), "bias": jnp.zeros(m)}
        for one, n, m in zip(keys, widths, widths[1:], strict=False)
    ]
    return params, [initial_basis(layer["weight"]) for layer in params]


def logits(params: Params, inputs: jax.Array) -> jax.Array:
    """The network."""
    for layer in params[:-1]:
        inputs = jax.nn.relu(inputs @ layer["weight"] + layer["bias"])
    return inputs @ params[-1]["weight"] + params[-1]["bias"]


def cross_entropy(params: Params, images: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean over a batch."""
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits(params, images), labels))


def main(params: Params, blocks: list[jax.Array], data: Data, batch: jax.Array) -> tuple[jax.Array, Any]:
    """Cross-entropy on a batch, given by its indices."""
    return cross_entropy(params, data["train_images"][batch], data["train_labels"][batch]), blocks


def aux(params: Params, blocks: list[jax.Array], data: Data, batch: jax.Array) -> tuple[jax.Array, Any]:
    """The logarithm of the product of spectral norms, by power iteration."""
    pairs = [spectral_norm(layer["weight"], u) for layer, u in zip(params, blocks, strict=True)]
    norms, after = zip(*pairs, strict=True)
    return jnp.sum(jnp.log(jnp.stack(norms))), list(after)


def evaluate(params: Params, blocks: list[jax.Array], data: Data) -> dict[str, jax.Array]:
    """Losses and accuracies, with the norms by SVD; aux is the same on train and test data."""
    norms = jnp.stack([jnp.linalg.svd(layer["weight"], compute_uv=False)[0] for layer in params])
    found = {"aux_train": jnp.sum(jnp.log(norms)), "aux_test": jnp.sum(jnp.log(norms))}
    for split in ("train", "test"):
        images, labels = data[f"{split}_images"][:10_000], data[f"{split}_labels"][:10_000]
        found[f"main_{split}"] = cross_entropy(params, images, labels)
        found[f"accuracy_{split}"] = jnp.mean(jnp.argmax(logits(params, images), axis=1) == labels)
    return found


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


def build(settings: Mapping[str, Setting], data_dir: Path | None) -> LoopTraining:
    """The task at given settings."""
    data = digits() if settings["data"] == "digits" else mnist(data_dir)
    examples, inputs = data["train_images"].shape
    batch, epochs, rows = int(settings["batch"]), int(settings["epochs"]), int(settings["rows_per_epoch"])
    steps = examples // batch // rows * rows
    warmup = min(int(settings["warmup_epochs"]) * steps, epochs * steps // 2)  # a run cut short warms up, too
    schedule = optax.warmup_cosine_decay_schedule(0.0, float(settings["learning_rate"]), warmup, epochs * steps)
    return LoopTraining(
        init=lambda key: init(key, inputs),
        losses=(main, aux),
        data=data,
        batches=lambda seed, epoch: epoch_batches(examples, batch, seed, epoch)[:steps],
        optimiser=lambda lam: optax.adam(schedule),
        evaluate=evaluate,
        chunks=epochs,
        steps=steps,
        rows=rows,
    )


def _split(train_images: Any, train_labels: Any, test_images: Any, test_labels: Any) -> Data:
    return {
        "train_images": jnp.asarray(train_images, jnp.float32),
        "train_labels": jnp.asarray(train_labels),
        "test_images": jnp.asarray(test_images, jnp.float32),
        "test_labels": jnp.asarray(test_labels),
    }


_LAMS = tuple(float(10**exponent) for exponent in np.arange(-4, 0.1, 0.5))

problem = Problem(
    name="lipschitz",
    title="a smooth MLP on digits (paper: MNIST)",
    main="cross-entropy",
    aux="log of the product of spectral norms",
    scales={
        "demo": Scale(
            settings={
                "data": "digits",
                "epochs": 30,
                "warmup_epochs": 2,
                "batch": 128,
                "learning_rate": 3e-3,
                "rows_per_epoch": 1,
            },
            methods=COMPARED,
            lams=_LAMS,
            rhos=(0.03,),
            seeds=(0, 1, 2),
        ),
        "laptop": Scale(
            settings={
                "data": "mnist",
                "epochs": 10,
                "warmup_epochs": 1,
                "batch": 256,
                "learning_rate": 3e-4,
                "rows_per_epoch": 2,
            },
            methods=COMPARED,
            lams=_LAMS,
        ),
        "paper": Scale(
            settings={
                "data": "mnist",
                "epochs": 100,
                "warmup_epochs": 5,
                "batch": 256,
                "learning_rate": 3e-4,
                "rows_per_epoch": 1,
            },
            methods=COMPARED,
            lams=_LAMS,
        ),
    },
    build=build,
    may_be_zero=frozenset({"warmup_epochs"}),
)
