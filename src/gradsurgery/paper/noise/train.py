"""``noise``: the expected direction at each noise level, and its distance to Bloop's and to mixed training's."""

from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradsurgery.geometry import reject
from gradsurgery.lab import Metrics, RunSpec, UserError
from gradsurgery.paper.noise.problem import BATCH, Settings
from gradsurgery.paper.training.chunked import ChunkedTraining
from gradsurgery.relative import relative

SIGMAS = tuple(float(10**exponent) for exponent in np.arange(-2, 2.01, 0.25))


class Noise(ChunkedTraining):
    """Not a training run: each chunk is one sigma, and records the distances of the expected direction."""

    chunks = len(SIGMAS)

    def __init__(self, dimension: int, samples: int) -> None:
        self._dimension = dimension
        self._mean = jax.jit(partial(_mean_rejection, samples))

    def start(self, run: RunSpec) -> tuple[Any, list[Metrics]]:
        """Draw both gradients, once for all sigmas."""
        if isinstance(run.lam, relative):
            raise UserError("noise draws many gradients at one λ, so λ cannot be relative to their lengths")
        main, aux = jax.random.normal(jax.random.key(run.seed), (2, self._dimension))
        return {"main": main, "aux": aux}, []

    def advance(self, run: RunSpec, state: Any, chunk: int) -> tuple[Any, list[Metrics]]:
        """Estimate the expectation at one sigma."""
        main, aux, lam = state["main"], state["aux"], run.lam
        key = jax.random.fold_in(jax.random.key(run.seed), 1 + chunk)
        direction = main + lam * self._mean(key, main, aux, SIGMAS[chunk])
        bloop, mixed = main + lam * reject(aux, main), main + lam * ((1 - 1 / self._dimension) * aux)
        row = {
            "step": chunk + 1,
            "sigma": SIGMAS[chunk],
            "to_bloop": float(jnp.linalg.norm(direction - bloop)),
            "to_mixed": float(jnp.linalg.norm(direction - mixed)),
        }
        return state, [row]


def _mean_rejection(samples: int, key: jax.Array, main: jax.Array, aux: jax.Array, sigma: Any) -> jax.Array:
    """Estimate E[pi(aux; main + sigma eps)]."""

    def sample(key: jax.Array) -> jax.Array:
        noisy = main + sigma * jax.random.normal(key, main.shape)
        return reject(aux, noisy)  # type: ignore[arg-type,return-value]  # arrays have a Vector's operators

    def add_batch(total: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        return total + jax.vmap(sample)(jax.random.split(key, BATCH)).mean(0), None

    batches = samples // BATCH
    total, _ = jax.lax.scan(add_batch, jnp.zeros_like(main), jax.random.split(key, batches))
    return total / batches


@lru_cache(maxsize=1)
def build(settings: Settings, data_dir: Path | None) -> Noise:
    """Prepare the experiment."""
    return Noise(settings.dimension, settings.samples)
