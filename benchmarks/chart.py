"""The chart for the docs: what a step costs over the number of parameters and of levels, and beside TorchJD."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.harness import Measure

COLOURS = {"eager": "#d55e00", "compiled": "#0072b2"}


def draw(lines: dict[str, list[Measure]], path: Path) -> None:
    """Draw three panels; error bars span the middle half of the ratios."""
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(9, 3), layout="constrained")
        parameters, levels, rivals = figure.subplots(1, 3, width_ratios=(1, 1, 1.3))
        for way, colour in COLOURS.items():
            points = [line for line in lines["scaling"] if line.name.startswith(f"torch, {way}")]
            _curve(parameters, [line for line in points if line.name.endswith("parameters")], way, colour)
            _curve(levels, [line for line in points if line.name.endswith("levels")], way, colour)
        parameters.set(xscale="log", yscale="log", xlabel="parameters", ylabel="time / its memory traffic")
        parameters.legend(frameon=False)
        levels.set(xlabel="levels of bloop")
        compared = [line for line in lines["apply_torch"] if line.name.endswith("/ our compiled apply()")]
        compared.sort(key=lambda line: line.median)
        names = ["gradsurgery, compiled", *(line.name.removeprefix("torch: ").split(" /")[0] for line in compared)]
        colours = [COLOURS.get(name.removeprefix("gradsurgery, "), "#b0b0b0") for name in names]
        bars = rivals.barh(names, [1.0, *(line.median for line in compared)], color=colours)
        rivals.bar_label(bars, fmt="%.1f", padding=3)
        rivals.invert_yaxis()
        rivals.margins(x=0.12)
        rivals.set(xlabel="time of a step, ours compiled = 1")
        levels.set_ylim(bottom=0)
        for panel in (parameters, levels):
            panel.grid(alpha=0.3)
        figure.savefig(path, dpi=150)


def _curve(panel: Axes, lines: list[Measure], way: str, colour: str) -> None:
    x = [float(line.name.split(": ")[1].split()[0]) for line in lines]
    middle = [line.median for line in lines]
    low, high = np.percentile([line.ratios for line in lines], (25, 75), axis=1)
    panel.errorbar(x, middle, yerr=[middle - low, high - middle], color=colour, label=way, marker="o", capsize=3)
    panel.axhline(1, color="#808080", linestyle=":")
