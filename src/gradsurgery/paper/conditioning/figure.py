"""The figure of ``conditioning``: trajectories, and the iterations needed, measured and by the paper's analysis."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gradsurgery.lab import RunRecord
from gradsurgery.lab.lam import has_weight, lam_number
from gradsurgery.lab.reports.style import look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEAR = 0.01
"""Distance from the solution that counts as converged."""


def draw(records: Sequence[RunRecord]) -> "dict[str, Figure]":
    """Draw the trajectories, and the iterations needed, measured and by the paper's analysis."""
    from matplotlib.figure import Figure

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
