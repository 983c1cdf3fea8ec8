"""What noise in main's gradient does to the projection on it: it forgets main, and becomes mixed training.

E[g_main + pi(g_aux; g_main + sigma eps)]   between   d_bloop = g_main + pi(g_aux; g_main)   at sigma = 0
                                            and       d_mixed = g_main + (1 - 1/p) g_aux      as sigma grows
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from gradsurgery.geometry import reject
from gradsurgery.lab.problem import Problem, Scale, Task
from gradsurgery.lab.run import Metrics, RunRecord, RunSpec, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIGMAS = tuple(float(10**exponent) for exponent in np.arange(-2, 2.01, 0.25))


class Noise(Task):
    """Not a training run: each chunk measures, at one sigma, how far the expected direction is from both limits."""

    chunks = len(SIGMAS)

    def __init__(self, dimension: int, samples: int) -> None:
        self._dimension = dimension
        self._mean = jax.jit(lambda key, main, aux, sigma: _mean_direction(key, main, aux, sigma, samples))

    def start(self, run: RunSpec) -> tuple[Any, list[Metrics]]:
        """The two gradients, drawn once for the whole run."""
        main, aux = jax.random.normal(jax.random.key(run.seed), (2, self._dimension))
        return {"main": main, "aux": aux}, []

    def advance(self, run: RunSpec, state: Any, chunk: int) -> tuple[Any, list[Metrics]]:
        """The expectation at one sigma."""
        main, aux = state["main"], state["aux"]
        key = jax.random.fold_in(jax.random.key(run.seed), 1 + chunk)
        mean = self._mean(key, main, aux, SIGMAS[chunk])
        bloop, mixed = main + reject(aux, main), main + (1 - 1 / self._dimension) * aux
        row = {
            "step": chunk + 1,
            "sigma": SIGMAS[chunk],
            "to_bloop": float(jnp.linalg.norm(mean - bloop)),
            "to_mixed": float(jnp.linalg.norm(mean - mixed)),
        }
        return state, [row]


def _mean_direction(key: jax.Array, main: jax.Array, aux: jax.Array, sigma: Any, samples: int) -> jax.Array:
    def one(key: jax.Array) -> jax.Array:
        noisy = main + sigma * jax.random.normal(key, main.shape)
        return reject(aux, noisy)  # type: ignore[arg-type,return-value]  # arrays have a Vector's operators

    def batch(total: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
        return total + jax.vmap(one)(jax.random.split(key, 1000)).mean(0), None

    batches = samples // 1000
    total, _ = jax.lax.scan(batch, jnp.zeros_like(main), jax.random.split(key, batches))
    return main + total / batches


def build(settings: Mapping[str, Setting], data_dir: Path | None) -> Noise:
    """The experiment at given settings."""
    return Noise(int(settings["dimension"]), int(settings["samples"]))


def draw(records: Sequence[RunRecord]) -> "dict[str, Figure]":
    """The paper's figure "Effect of randomness on the projection"."""
    from matplotlib.figure import Figure

    from gradsurgery.lab.reports.looks import look

    figure = Figure(figsize=(3.4, 2.6), layout="constrained")
    axes = figure.subplots()
    for target, name in (("to_bloop", "bloop"), ("to_mixed", "mixed")):
        rows = np.array([[row[target] for row in record.metrics] for record in records])
        style = look(name)
        axes.plot(SIGMAS, rows.mean(0), style.marker + "-", color=style.colour, markersize=4, label=f"to d_{name}")
        axes.fill_between(SIGMAS, rows.min(0), rows.max(0), color=style.colour, alpha=0.15, linewidth=0)
    axes.set(xscale="log", xlabel="noise σ", ylabel="distance of E[d_simple]")
    axes.legend(frameon=False)
    return {"noise": figure}


problem = Problem(
    name="noise",
    title="the projection under gradient noise (paper: fig. Effect of randomness)",
    main="a Gaussian gradient with noise σ",
    aux="another, without noise",
    scales={
        "demo": Scale(
            settings={"dimension": 100, "samples": 20_000}, methods=("bloop",), lams=(1.0,), rhos=(), seeds=(0, 1, 2)
        ),
        "paper": Scale(settings={"dimension": 100, "samples": 1_000_000}, methods=("bloop",), lams=(1.0,), rhos=()),
    },
    build=build,
    draw=draw,
)
