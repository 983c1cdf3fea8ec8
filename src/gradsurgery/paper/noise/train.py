"""``noise``: the expected direction at each noise level, and its distance to Bloop's and to mixed training's."""

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradsurgery.geometry import reject
from gradsurgery.lab import Metrics, Run, UserError
from gradsurgery.paper.noise.problem import BATCH
from gradsurgery.relative import relative

SIGMAS = tuple(float(10**exponent) for exponent in np.arange(-2, 2.01, 0.25))


def measure(run: Run) -> Iterator[Metrics]:
    """Draw both gradients, and estimate the expected direction at each sigma."""
    if isinstance(run.lam, relative):
        raise UserError("noise draws many gradients at one λ, so λ cannot be relative to their lengths")
    run.device = jax.devices()[0].device_kind
    dimension, lam, mean_rejection = run.settings.dimension, run.lam, _mean_rejection(run.settings.samples)
    main, aux = jax.random.normal(jax.random.key(run.seed), (2, dimension))
    bloop, mixed = main + lam * reject(aux, main), main + lam * ((1 - 1 / dimension) * aux)
    for number, sigma in enumerate(SIGMAS, 1):
        key = jax.random.fold_in(jax.random.key(run.seed), number)
        direction = main + lam * mean_rejection(key, main, aux, sigma)
        run.progress = number / len(SIGMAS)
        yield {
            "step": number,
            "sigma": sigma,
            "to_bloop": float(jnp.linalg.norm(direction - bloop)),
            "to_mixed": float(jnp.linalg.norm(direction - mixed)),
        }


@lru_cache(maxsize=1)
def _mean_rejection(samples: int) -> Any:
    """Make the compiled estimate of E[pi(aux; main + sigma eps)], once for all runs of a worker."""
    return jax.jit(partial(_estimate, samples // BATCH))


def _estimate(batches: int, key: jax.Array, main: jax.Array, aux: jax.Array, sigma: Any) -> jax.Array:
    def sample(key: jax.Array) -> jax.Array:
        noisy = main + sigma * jax.random.normal(key, main.shape)
        return reject(aux, noisy)  # type: ignore[arg-type,return-value]  # arrays have a Vector's operators

    def add_batch(total: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        return total + jax.vmap(sample)(jax.random.split(key, BATCH)).mean(0), None

    total, _ = jax.lax.scan(add_batch, jnp.zeros_like(main), jax.random.split(key, batches))
    return total / batches
