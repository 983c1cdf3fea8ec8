"""The figure of ``noise``: how far the expected direction is from Bloop's and from mixed training's."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gradsurgery.lab import RunRecord
from gradsurgery.lab.reports.style import look

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(records: Sequence[RunRecord]) -> "dict[str, Figure]":
    """Draw the paper's figure "Effect of randomness on the projection"."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.4, 2.6), layout="constrained")
    axes = figure.subplots()
    sigmas = [row["sigma"] for row in records[0].metrics]
    for target, name in (("to_bloop", "bloop"), ("to_mixed", "mixed")):
        distances = np.array([[row[target] for row in record.metrics] for record in records])
        style = look(name)
        axes.plot(sigmas, distances.mean(0), style.marker + "-", color=style.colour, markersize=4, label=f"to d_{name}")
        axes.fill_between(sigmas, distances.min(0), distances.max(0), color=style.colour, alpha=0.15, linewidth=0)
    axes.set(xscale="log", xlabel="noise σ", ylabel="distance of E[d_simple]")
    axes.legend(frameon=False)
    return {"noise": figure}
