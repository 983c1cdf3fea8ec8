"""Two dimensions, where all is known: mixed training is slow or wrong, Bloop neither.

    main = a^2 / 2,   aux = ((a - 1)^2 + b^2) / 2

The bilevel solution is (0, 0). Mixed training ends at (lam / (1 + lam), 0), and its condition number is 1 + 1 / lam:
far from the solution or slow. Bloop's direction is (a, lam b), which ends at the solution whatever lam, and is well
conditioned where lam is near 1.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gradsurgery.lab.problem import Problem, Scale
from gradsurgery.lab.run import RunRecord, Setting
from gradsurgery.lab.train.loops import LoopTraining

if TYPE_CHECKING:
    from matplotlib.figure import Figure

START = (1.0, 1.0)
NEAR = 0.01
"""How near to the solution counts as there."""


def build(settings: Mapping[str, Setting], data_dir: Path | None) -> LoopTraining:
    """The task: full-batch gradient descent; ``extra`` counts the steps, and remembers when the solution was near."""
    rate, steps, chunks = float(settings["learning_rate"]), int(settings["steps"]), 10

    def main(params: jax.Array, extra: dict[str, jax.Array], data: Any, batch: Any) -> tuple[jax.Array, Any]:
        arrived = (extra["iterations"] < 0) & (jnp.linalg.norm(jax.lax.stop_gradient(params)) <= NEAR)
        iterations = jnp.where(arrived, extra["step"], extra["iterations"])
        return params[0] ** 2 / 2, {"step": extra["step"] + 1, "iterations": iterations}

    def aux(params: jax.Array, extra: Any, data: Any, batch: Any) -> tuple[jax.Array, Any]:
        return ((params[0] - 1) ** 2 + params[1] ** 2) / 2, extra

    def evaluate(params: jax.Array, extra: Any, data: Any) -> dict[str, jax.Array]:
        losses = {"main": main(params, extra, None, None)[0], "aux": aux(params, extra, None, None)[0]}
        seen = {f"{name}_{split}": loss for name, loss in losses.items() for split in ("train", "test")}
        where = {"a": params[0], "b": params[1], "distance": jnp.linalg.norm(params)}
        return {**seen, **where, "iterations": jnp.where(extra["iterations"] < 0, jnp.nan, extra["iterations"])}

    return LoopTraining(
        init=lambda key: (jnp.array(START), {"step": jnp.zeros((), int), "iterations": -jnp.ones((), int)}),
        losses=(main, aux),
        data=(),
        batches=lambda seed, chunk: np.zeros(steps // chunks),
        optimiser=lambda lam: optax.sgd(rate),
        evaluate=evaluate,
        chunks=chunks,
        steps=steps // chunks,
        rows=min(steps // chunks, 50),
    )


def draw(records: Sequence[RunRecord]) -> "dict[str, Figure]":
    """The way through the plane, and the iterations needed, measured and by the paper's analysis."""
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

    for name in dict.fromkeys(record.spec.method for record in records):
        own = [record for record in records if record.spec.method == name]
        needed.plot(
            [r.spec.lam for r in own],
            [r.final["iterations"] for r in own],
            look(name).marker,
            color=look(name).colour,
            label=f"{name}, measured",
        )
    swept = [record.spec.lam for record in records if record.spec.lam]
    lams = np.geomspace(min(swept), max(swept), 100)
    rate = float(records[0].spec.settings["learning_rate"])
    with np.errstate(divide="ignore", invalid="ignore"):
        slower = np.maximum(np.log(NEAR) / np.log1p(-rate * lams), np.log(NEAR) / np.log1p(-rate))
    needed.plot(lams, slower, color=look("bloop").colour, linewidth=1, label="Hessian diag(1, λ)")
    needed.axvspan(NEAR, lams[-1], color=look("mixed").colour, alpha=0.08, label=f"mixed ends over {NEAR} away")
    needed.set(xscale="log", yscale="log", xlabel="λ", ylabel=f"iterations to within {NEAR}")
    needed.legend(frameon=False, fontsize=7)
    return {"conditioning": figure}


problem = Problem(
    name="conditioning",
    title="two dimensions, where all is known (paper: section Conditioning)",
    main="a² / 2",
    aux="((a − 1)² + b²) / 2",
    scales={
        "demo": Scale(
            settings={"learning_rate": 0.1, "steps": 10_000},
            methods=("mixed", "bloop"),
            lams=tuple(float(10**exponent) for exponent in np.arange(-3, 1.01, 0.5)),
            rhos=(),
        )
    },
    build=build,
    draw=draw,
)
