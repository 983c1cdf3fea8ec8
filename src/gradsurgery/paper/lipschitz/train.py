"""``lipschitz``: an MLP, its cross-entropy, and the logarithm of the product of its spectral norms."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax

from gradsurgery.paper.lipschitz.problem import Settings
from gradsurgery.paper.models import mlp
from gradsurgery.paper.models.mlp import Data, Params, load_data, main, shuffled_epochs
from gradsurgery.paper.models.spectral_norm import initial_basis, spectral_norm
from gradsurgery.paper.training.chunking import chunk_epochs
from gradsurgery.paper.training.schedule import warmup_cosine
from gradsurgery.paper.training.training import Training

EVALUATED = 10_000
"""Maximum number of images in an evaluation, from the training set and from the held-out set each."""


def init(key: jax.Array, inputs: int, classes: int = 10) -> tuple[Params, list[jax.Array]]:
    """The network, and for each layer the vectors that its power iteration starts from."""
    params = mlp.init(key, inputs, classes)
    return params, [initial_basis(layer["weight"]) for layer in params]


def aux(params: Params, bases: list[jax.Array], data: Data, batch: jax.Array) -> tuple[jax.Array, Any]:
    """Logarithm of the product of spectral norms, by power iteration."""
    pairs = [spectral_norm(layer["weight"], basis) for layer, basis in zip(params, bases, strict=True)]
    norms, after = zip(*pairs, strict=True)
    return jnp.sum(jnp.log(jnp.stack(norms))), list(after)


def evaluate(params: Params, bases: list[jax.Array], data: Data) -> dict[str, jax.Array]:
    """Losses and accuracies, with exact norms (SVD); aux is the same on train and test data."""
    norms = jnp.stack([jnp.linalg.svd(layer["weight"], compute_uv=False)[0] for layer in params])
    aux = jnp.sum(jnp.log(norms))
    return {"aux_train": aux, "aux_test": aux, **mlp.evaluate_main(params, data, EVALUATED)}


@lru_cache(maxsize=1)
def build(settings: Settings, data_dir: Path | None) -> Training:
    """Load the images and prepare training, once for all runs of a worker."""
    data, classes = load_data(settings.main_data, data_dir)
    examples, inputs = data["train_images"].shape
    chunks, steps = chunk_epochs(settings.epochs, examples, settings.batch, settings.rows_per_epoch)
    schedule = warmup_cosine(
        settings.learning_rate, warmup_epochs=settings.warmup_epochs, epochs=settings.epochs, steps=chunks * steps
    )

    def batches(seed: int, start: int) -> Iterator[Any]:
        return shuffled_epochs(examples, settings.batch, steps * settings.rows_per_epoch, seed, start)

    return Training(
        init=lambda key: init(key, inputs, classes),
        losses=(main, aux),
        data=data,
        batches=batches,
        optimiser=lambda lam: optax.adam(schedule),
        evaluate=evaluate,
        chunks=chunks,
        steps=steps,
        scan=True,
    )
