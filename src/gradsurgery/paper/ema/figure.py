"""The figure of ``ema``: both losses over the steps, one curve for each ρ."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradsurgery.lab import RunRecord
from gradsurgery.lab.analysis import Series, group_runs, loss_point
from gradsurgery.lab.reports.style import assign_looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(records: Sequence[RunRecord]) -> "dict[str, Figure]":
    """Draw the paper's figure: both training losses over the steps, one curve for each rho and one for mixed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.75, 2.6), layout="constrained")
    groups = group_runs(records)
    looks = assign_looks(groups)
    curves = {looks[group.label]: _curve(group) for group in groups}
    for place, (panel, name) in enumerate(zip(figure.subplots(1, 2), ("main", "auxiliary"), strict=True)):
        for look, curve in curves.items():
            panel.plot(
                curve[:, 0],
                curve[:, 1 + place],
                color=look.colour,
                marker=look.marker,
                markerfacecolor="white" if look.hollow else look.colour,
                markersize=3,
                markevery=max(len(curve) // 6, 1),
                linewidth=1.1,
                label=look.label,
            )
        panel.set(xlabel="step", ylabel=f"{name} loss, train", yscale="log")
        # leave out the first steps, which look alike and would take up most of the panel
        late = np.concatenate([curve[len(curve) // 6 :, 1 + place] for curve in curves.values()])
        if np.isfinite(late).all():
            panel.set_ylim(late.min() / 1.01, late.max() * 1.01)
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter("{x:g}")
    figure.legend(*panel.get_legend_handles_labels(), loc="outside upper center", ncols=5, frameon=False)
    return {"curves": figure}


def _curve(group: Series) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Step, main and aux of each row, averaged over the seeds with as many steps as the longest run."""
    rows = [[(row["step"], *loss_point(row, "train")) for row in record.metrics] for record in group.records]
    longest = [step for step, *_ in max(rows, key=lambda run: run[-1][0])]
    return np.mean([run for run in rows if [step for step, *_ in run] == longest], axis=0)
