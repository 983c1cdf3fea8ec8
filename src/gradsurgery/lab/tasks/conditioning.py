"""``conditioning``: full-batch gradient descent on two quadratics in the plane."""

import math
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gradsurgery.lab.lam import has_weight, lam_number
from gradsurgery.lab.problems.conditioning import Settings
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.train.training import Training

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

START = (1.0, 1.0)
NEAR = 0.01
"""Distance from the solution that counts as converged."""
ROWS = 500
"""Maximum number of recorded rows."""


def build(settings: Settings, data_dir: Path | None) -> Training:
    """Prepare training; ``extra`` counts the steps, and holds the number of the first step near the solution."""

    def main(params: jax.Array, extra: dict[str, jax.Array], data: Any, batch: Any) -> tuple[jax.Array, Any]:
        arrived = (extra["iterations"] < 0) & (jnp.linalg.norm(jax.lax.stop_gradient(params)) <= NEAR)
        iterations = jnp.where(arrived, extra["step"], extra["iterations"])
        return params[0] ** 2 / 2, {"step": extra["step"] + 1, "iterations": iterations}

    def aux(params: jax.Array, extra: Any, data: Any, batch: Any) -> tuple[jax.Array, Any]:
        return ((params[0] - 1) ** 2 + params[1] ** 2) / 2, extra

    def evaluate(params: jax.Array, extra: Any, data: Any) -> dict[str, jax.Array]:
        losses = {"main": main(params, extra, None, None)[0], "aux": aux(params, extra, None, None)[0]}
        metrics = {f"{name}_{split}": loss for name, loss in losses.items() for split in ("train", "test")}
        position = {"a": params[0], "b": params[1], "distance": jnp.linalg.norm(params)}
        iterations = jnp.where(extra["iterations"] < 0, jnp.nan, extra["iterations"])
        return {**metrics, **position, "iterations": iterations}

    def batches(seed: int, start: int) -> Iterator[Any]:
        return repeat(np.zeros(()))  # gradients are exact: there is nothing to draw

    chunks = math.gcd(settings.steps, ROWS)
    return Training(
        init=lambda key: (jnp.array(START), {"step": jnp.zeros((), int), "iterations": -jnp.ones((), int)}),
        losses=(main, aux),
        data=(),
        batches=batches,
        optimiser=lambda lam: optax.sgd(settings.learning_rate),
        evaluate=evaluate,
        chunks=chunks,
        steps=settings.steps // chunks,
        scan=True,
    )


def draw(records: Sequence[RunRecord]) -> "dict[str, Figure]":
    """Draw the trajectories, and the iterations needed, measured and by the paper's analysis."""
    from matplotlib.figure import Figure

    from gradsurgery.lab.reports.looks import look

    figure = Figure(figsize=(7.0, 3.0), layout="constrained")
    plane, needed = figure.subplots(1, 2)
    for record in records:
        method = look(record.spec.method)
        path = np.array([(row["a"], row["b"]) for row in record.metrics])
        plane.plot(*path.T, color=method.colour, alpha=0.4, linewidth=1)
        plane.plot(*path[-1], method.marker, color=method.colour, markersize=4)
    plane.plot(0, 0, "k*", markersize=10, label="bilevel solution")
    plane.set(xlabel="a", ylabel="b", title="trajectories, one for each λ")
    plane.legend(frameon=False)

    weighted = [record for record in records if has_weight(record.spec.lam) and record.spec.lam_name == "λ"]
    if weighted:
        _draw_iterations(needed, weighted)
    return {"conditioning": figure}


def _draw_iterations(axes: "Axes", records: Sequence[RunRecord]) -> None:
    """Draw the iterations that each run needed over its lam, and those that the analysis predicts for bloop."""
    from gradsurgery.lab.reports.looks import look

    for name in dict.fromkeys(record.spec.method for record in records):
        same_method = [record for record in records if record.spec.method == name]
        axes.plot(
            [lam_number(record.spec.lam or 0.0) for record in same_method],
            [record.final["iterations"] for record in same_method],
            look(name).marker,
            color=look(name).colour,
            label=f"{name}, measured",
        )
    swept = [lam_number(record.spec.lam or 0.0) for record in records]
    lams = np.geomspace(min(swept), max(swept), 100)
    rate = float(records[0].spec.settings["learning_rate"])
    with np.errstate(divide="ignore", invalid="ignore"):
        slower = np.maximum(np.log(NEAR) / np.log1p(-rate * lams), np.log(NEAR) / np.log1p(-rate))
    axes.plot(lams, slower, color=look("bloop").colour, linewidth=1, label="Hessian diag(1, λ)")
    axes.axvspan(NEAR, lams[-1], color=look("mixed").colour, alpha=0.08, label=f"mixed ends over {NEAR} away")
    axes.set(xscale="log", yscale="log", xlabel="λ", ylabel=f"iterations to within {NEAR}")
    axes.legend(frameon=False, fontsize=7)
