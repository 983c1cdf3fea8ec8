"""Figures fit for a paper: the Pareto fronts, and the mixed loss over lam.

They are drawn at the width at which a two-column page prints them, so that their letters have the size of its captions,
and saved as PNG (200 dpi) and PDF (fonts embedded). Nothing here needs a display.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.style import context
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from gradsurgery.lab.reports import pareto
from gradsurgery.lab.reports.looks import Look, lam_places, lam_ticks, number
from gradsurgery.lab.reports.series import Point, Series, losses, series, splits
from gradsurgery.lab.run import RunRecord

COLUMN, PAGE = 3.25, 6.75
"""Widths in inches of one column and of both."""
MIXTURES = (0.0, 0.1, 0.25, 0.5)
"""The t at which the mixed loss is drawn."""

Drawing: TypeAlias = Callable[[Sequence[RunRecord]], Mapping[str, Figure]]
"""Runs to figures by file name."""


def save_figures(records: Sequence[RunRecord], folder: Path, draw: Drawing | None = None) -> list[Path]:
    """Draws what the runs allow into the folder, each figure as PNG and PDF, and returns the files.

    ``fronts`` needs a run that ended with finite losses, ``mixed-loss`` at least two lam; ``draw`` adds others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    saved = []
    # from the defaults up: a figure should not depend on the settings of whoever draws it
    with as_file(files("gradsurgery.lab.reports") / "figures.mplstyle") as style, context(["default", style]):
        groups = series(records)
        figures = {"fronts": fronts(groups), "mixed-loss": mixed_loss(groups)} | dict(draw(records) if draw else {})
        for name, figure in figures.items():
            for suffix, metadata in (("png", {}), ("pdf", {"CreationDate": None})):
                if figure is not None:
                    saved.append(folder / f"{name}.{suffix}")
                    figure.savefig(saved[-1], metadata=metadata)
    return saved


def fronts(groups: Sequence[Series]) -> Figure | None:
    """Final points joined into fronts over transparent training trajectories; train left, test right.

    A large symbol is the mean over seeds at one lam, small ones are its seeds; means that another lam of the method
    dominates are paler and not joined.
    """
    shown = splits(groups)
    if not shown:
        return None
    keys = [_key(group.look) for group in groups]
    figure, panels = _panels(len(shown), height=2.6, keys=keys)
    for panel, split in zip(panels, shown, strict=True):
        box = pareto.box(groups, split)
        for group in reversed(groups):  # the first, bloop, on top
            _draw_front(panel, group, split)
        _scale(panel, "x", box.main)
        _scale(panel, "y", box.aux)
        panel.set(title=split, xlabel="main loss", ylabel="auxiliary loss" if panel is panels[0] else "")
    return figure


def _draw_front(panel: Axes, group: Series, split: str) -> None:
    colour, levels = group.look.colour, group.levels(split)
    for record in group.records:
        panel.plot(*_columns(losses(row, split) for row in record.metrics), color=colour, alpha=0.18, linewidth=0.7)
    if any(len(level.points) > 1 for level in levels):
        panel.plot(*_columns(group.points(split)), **_marker(group.look, size=2.2), linestyle="", alpha=0.4)
    means = [level.mean for level in levels]
    best = pareto.front(means)
    beaten = [point for point in means if point not in best]
    panel.plot(*_columns(beaten), **_marker(group.look), linestyle="", alpha=0.4)
    panel.plot(*_columns(best), **_marker(group.look), linewidth=1.2)


def mixed_loss(groups: Sequence[Series], mixtures: Sequence[float] = MIXTURES) -> Figure | None:
    """The final (1 - t) main + t aux over lam, a panel for each t: test bold, train dotted, as in the paper.

    Lines are means over seeds, bands one standard deviation. A method without lam is a level line.
    """
    shown = splits(groups)
    ticks = lam_ticks(level.lam for group in groups for split in shown for level in group.levels(split))
    if len(ticks) < 2:
        return None
    places = lam_places(ticks)
    lines = [Line2D([], [], color="#555555", **_stroke(bold=split == shown[-1]), label=split) for split in shown]
    figure, panels = _panels(len(mixtures), height=2.0, keys=[_key(group.look) for group in groups] + lines)
    for panel, t in zip(panels, mixtures, strict=True):
        values: list[float] = []
        for group in reversed(groups):
            for split in shown:
                values += _draw_mixed(panel, group, split, t, places, bold=split == shown[-1])
        _scale(panel, "y", pareto.axis(values))
        panel.set(title=f"$t = {t:g}$", xlabel="$\\lambda$", xscale="log")
        panel.set_xticks(list(places.values()), list(ticks.values()))
        panel.xaxis.set_minor_locator(NullLocator())
    panels[0].set_ylabel("$(1 - t)$ main $+$ $t$ aux")
    return figure


def _draw_mixed(
    panel: Axes, group: Series, split: str, t: float, places: dict[float, float], *, bold: bool
) -> list[float]:
    levels = group.levels(split)
    means, spreads = _columns(level.mixed(t) for level in levels)
    if levels and levels[0].lam is None:
        panel.axhline(means[0], color=group.look.colour, **_stroke(bold))
        return means
    x = [places[level.lam] for level in levels if level.lam is not None]
    panel.plot(x, means, **_marker(group.look, size=3) if bold else {"color": group.look.colour}, **_stroke(bold))
    low, high = _columns((mean - spread, mean + spread) for mean, spread in zip(means, spreads, strict=True))
    panel.fill_between(x, low, high, color=group.look.colour, alpha=0.15, linewidth=0)
    return means


def _panels(count: int, height: float, keys: list[Line2D]) -> tuple[Figure, list[Axes]]:
    """Panels side by side, over one column if there is one, over the page if there are more; above them the legend."""
    columns = min(len(keys), 2 if count == 1 else 6 if len(keys) == 6 else 5)
    legend = 0.05 + 0.19 * math.ceil(len(keys) / columns)
    figure = Figure(figsize=(COLUMN if count == 1 else PAGE, height + legend), layout="constrained")
    figure.legend(handles=keys, loc="outside upper center", ncols=columns, frameon=False, handletextpad=0.5)
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def _key(look: Look) -> Line2D:
    return Line2D([], [], **_marker(look), linewidth=1.2, label=look.label)


def _marker(look: Look, size: float = 4.5) -> dict[str, Any]:
    inside = "white" if look.hollow else look.colour
    return {
        "marker": look.marker,
        "markersize": size,
        "color": look.colour,
        "markerfacecolor": inside,
        "markeredgewidth": 0.6,
    }


def _stroke(bold: bool) -> dict[str, Any]:
    return {"linestyle": "-", "linewidth": 1.4} if bold else {"linestyle": ":", "linewidth": 1.1}


def _scale(panel: Axes, side: str, losses: pareto.Axis) -> None:
    """Fits an axis to the losses: they fill it, and its ticks are plain numbers as long as those are short."""
    axis = panel.xaxis if side == "x" else panel.yaxis
    if losses.best < losses.worst:  # else there is one point, and its trajectory should be seen
        panel.set(**{f"{side}lim": losses.view(losses.logarithmic)})
    if losses.logarithmic:
        panel.set(**{f"{side}scale": "log"})
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if losses.worst < 100 * losses.best else (1,)))
        if losses.best > 1e-4 and losses.worst < 1e5:
            axis.set_major_formatter(lambda value, _: number(value))
        axis.set_minor_formatter(NullFormatter())


def _columns(points: Iterable[Point]) -> tuple[list[float], list[float]]:
    points = list(points)
    return [main for main, _ in points], [aux for _, aux in points]
