"""``noise``: the expected direction at each noise level, and its distance to Bloop's and to mixed training's."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from gradsurgery.geometry import reject
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.problems.noise import BATCH, Settings
from gradsurgery.lab.run import Metrics, RunRecord, RunSpec
from gradsurgery.lab.train.chunked import ChunkedTask
from gradsurgery.relative import relative

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGMAS = tuple(float(10**exponent) for exponent in np.arange(-2, 2.01, 0.25))


class Noise(ChunkedTask):
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


def build(settings: Settings, data_dir: Path | None) -> Noise:
    """Prepare the experiment."""
    return Noise(settings.dimension, settings.samples)


def draw(records: Sequence[RunRecord]) -> "dict[str, Figure]":
    """Draw the paper's figure "Effect of randomness on the projection"."""
    from matplotlib.figure import Figure

    from gradsurgery.lab.reports.looks import look

    figure = Figure(figsize=(3.4, 2.6), layout="constrained")
    axes = figure.subplots()
    for target, name in (("to_bloop", "bloop"), ("to_mixed", "mixed")):
        distances = np.array([[row[target] for row in record.metrics] for record in records])
        style = look(name)
        axes.plot(SIGMAS, distances.mean(0), style.marker + "-", color=style.colour, markersize=4, label=f"to d_{name}")
        axes.fill_between(SIGMAS, distances.min(0), distances.max(0), color=style.colour, alpha=0.15, linewidth=0)
    axes.set(xscale="log", xlabel="noise σ", ylabel="distance of E[d_simple]")
    axes.legend(frameon=False)
    return {"noise": figure}
