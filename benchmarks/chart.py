"""The chart for the docs: what a step costs over the number of parameters and of levels, and beside its rivals."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.harness import Measure

COLOUR = "#d55e00"


def draw(lines: dict[str, list[Measure]], path: Path) -> None:
    """Three panels; bars from the least to the greatest ratio seen."""
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(9, 3), layout="constrained")
        parameters, levels, rivals = figure.subplots(1, 3, width_ratios=(1, 1, 1.3))
        sizes = [line for line in lines["scaling"] if line.name.endswith("parameters")]
        deep = [line for line in lines["scaling"] if line.name.endswith("levels")]
        _curve(parameters, [float(line.name.split()[1]) for line in sizes], sizes)
        parameters.set(xscale="log", yscale="log", xlabel="parameters", ylabel="time / its memory traffic")
        _curve(levels, [float(line.name.split()[1]) for line in deep], deep)
        levels.set(xlabel="levels of bloop")
        shown = [line for line in lines["apply_torch"] if line.unit == "times"]
        names = ["gradsurgery, eager", *(line.name.split(": ")[1].split(" /")[0] for line in shown)]
        values = [1.0, *(line.median for line in shown)]
        bars = rivals.barh(names, values, color=[COLOUR, *["#b0b0b0"] * len(shown)])
        rivals.bar_label(bars, fmt="%.1f", padding=3)
        rivals.invert_yaxis()
        rivals.set(xlabel="time of a step, ours = 1")
        levels.set_ylim(bottom=0)
        for panel in (parameters, levels):
            panel.grid(alpha=0.3)
        figure.savefig(path, dpi=150)


def _curve(panel: Axes, x: list[float], lines: list[Measure]) -> None:
    middle = [line.median for line in lines]
    below = [line.median - min(line.ratios) for line in lines]
    above = [max(line.ratios) - line.median for line in lines]
    panel.errorbar(x, middle, yerr=[below, above], color=COLOUR, marker="o", capsize=3)
    panel.axhline(1, color="#808080", linestyle=":")
