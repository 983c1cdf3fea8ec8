"""Figures for a paper: the Pareto fronts, and the mixed loss over λ.

They have the width of one or two columns of a page, so that their text has the size of its captions, and are saved as
PNG (200 dpi) and PDF (fonts embedded). No display is needed.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import as_file, files
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.style import context
from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

from gradsurgery.lab.analysis.pareto import LossRange, Point
from gradsurgery.lab.analysis.series import (
    SPLITS,
    SeedGroup,
    Series,
    group_alone,
    group_runs,
    is_main_alone,
    lam_axis,
    splits_with_points,
)
from gradsurgery.lab.atomic import write_atomically
from gradsurgery.lab.problem import Drawing
from gradsurgery.lab.reports.axes import axis_limits, drawn_region, lam_positions, lam_ticks, range_of
from gradsurgery.lab.reports.style import MAIN_ALONE, Look, assign_looks
from gradsurgery.lab.reports.views import View, find_views, loss_views
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.text import number

COLUMN, PAGE = 3.25, 6.75
"""Widths in inches of one column and of both."""
MIXTURES = (0.0, 0.1, 0.25, 0.5)
"""The values of t for which the mixed loss is drawn."""
FORMATS: dict[str, dict[str, Any]] = {"png": {}, "pdf": {"CreationDate": None}}
"""The file formats, with metadata that keeps files of the same runs identical."""
STANDARD_FIGURES = ("fronts", "mixed-loss")
"""The figures that every report draws; a problem may add others."""


def save_figures(records: Sequence[RunRecord], folder: Path, draw: "Drawing | None") -> list[Path]:
    """Draw all figures, save each as PNG and PDF in the folder, and return the files.

    ``fronts`` needs a run with finite final losses, ``mixed-loss`` at least two λ. ``draw`` adds further figures
    from the finished runs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    saved = []
    with paper_style():
        shown, views = find_views(records)
        groups = group_runs(shown)
        alone = [record for record in shown if is_main_alone(record.spec)]
        standard = draw_fronts(groups, alone, views), draw_mixed_loss(groups)
        figures = dict(zip(STANDARD_FIGURES, standard, strict=True))
        finished = [record for record in records if record.status == "done" and record.metrics]
        further = draw(finished) if draw and finished else {}
        for name, figure in {**figures, **further}.items():
            for suffix, metadata in FORMATS.items():
                if figure is not None:
                    content = BytesIO()
                    figure.savefig(content, format=suffix, metadata=metadata)
                    saved.append(folder / f"{name}.{suffix}")
                    write_atomically(saved[-1], content.getvalue())
    return saved


@contextmanager
def paper_style() -> Iterator[None]:
    """Draw in our style from matplotlib's defaults, so that figures do not depend on the user's matplotlibrc."""
    with as_file(files("gradsurgery.lab.reports") / "assets/figures.mplstyle") as style, context(["default", style]):
        yield


def draw_fronts(
    groups: Sequence[Series], alone: Sequence[RunRecord] = (), views: Sequence[View] | None = None
) -> Figure | None:
    """The Pareto fronts in each view, by default the losses: train left, test right. None if nothing can be shown.

    A large marker is the mean over seeds at one λ, with an error bar of one standard deviation; small markers are
    single runs. Means that another λ of the same method dominates are paler and not joined. The runs of main alone
    are one black star, their mean. Faint curves are the losses during training, as in the paper. Left and below is
    better: a metric to maximise decreases along its axis.
    """
    views = loss_views(groups) if views is None else views
    if not views:
        return None
    looks = assign_looks(groups)
    legend = list(map(_legend_line, looks.values()))
    if any(group_alone(alone, view.name) for view in views):
        legend.append(Line2D([], [], **_marker(MAIN_ALONE, size=7), linestyle="", label=MAIN_ALONE.label))
    figure, panels = _create_panels(len(views), height=2.6, legend=legend)
    for panel, view in zip(panels, views, strict=True):
        star = group_alone(alone, view.name)
        region = drawn_region(groups, view.name, star)
        for group in reversed(groups):  # the first, bloop, on top
            _draw_front(panel, group, view.name, looks[group.label])
        if star:
            panel.plot(*_columns([star.mean]), **_marker(MAIN_ALONE, size=7), linestyle="", zorder=3)
        _set_scale(panel, "x", region.main)
        _set_scale(panel, "y", region.aux)
        _label(panel, view, is_first=panel is panels[0])
    return figure


def _label(panel: Axes, view: View, *, is_first: bool) -> None:
    if view.name in SPLITS:
        panel.set(title=view.name, xlabel="main loss", ylabel="auxiliary loss" if is_first else "")
        return
    panel.set(title=view.label, xlabel=view.main.title, ylabel=view.aux.title)
    for axis, objective in ((panel.xaxis, view.main), (panel.yaxis, view.aux)):
        if objective.maximise:  # drawn as a cost
            axis.set_major_formatter(lambda cost, _: number(-cost))


def _draw_front(panel: Axes, group: Series, split: str, look: Look) -> None:
    by_lam = group.by_lam(split)
    for trajectory in group.trajectories(split):
        panel.plot(*_columns(trajectory), color=look.colour, linewidth=0.6, alpha=0.25, zorder=1)
    if any(len(seeds.points) > 1 for seeds in by_lam):
        panel.plot(*_columns(group.final_points(split)), **_marker(look, size=2.2), linestyle="", alpha=0.4)
        x, y = _columns(seeds.mean for seeds in by_lam)
        x_errors, y_errors = _columns(seeds.deviation for seeds in by_lam)
        panel.errorbar(x, y, y_errors, x_errors, fmt="none", ecolor=look.colour, elinewidth=0.6, alpha=0.5)
    on_front, dominated = group.split_front(split)
    panel.plot(*_columns(seeds.mean for seeds in dominated), **_marker(look), linestyle="", alpha=0.4)
    panel.plot(*_columns(seeds.mean for seeds in on_front), **_marker(look), linewidth=1.2)


def draw_mixed_loss(groups: Sequence[Series]) -> Figure | None:
    """The final (1 - t) main + t aux over λ, one panel for each t; test solid, train dotted, as in the paper.

    Lines are means over seeds, bands one standard deviation. A method without λ is a horizontal line. None if there are
    fewer than two λ.
    """
    splits = splits_with_points(groups)
    ticks = lam_ticks(seeds.number for group in groups for split in splits for seeds in group.by_lam(split))
    if len(ticks) < 2:
        return None
    positions = lam_positions(ticks)
    lines = [Line2D([], [], color="#555555", **_stroke(solid=split == splits[-1]), label=split) for split in splits]
    looks = assign_looks(groups)
    legend = [*map(_legend_line, looks.values()), *lines]
    figure, panels = _create_panels(len(MIXTURES), height=2.0, legend=legend)
    for panel, t in zip(panels, MIXTURES, strict=True):
        values: list[float] = []
        for group in reversed(groups):
            for split in splits:
                by_lam, look = group.by_lam(split), looks[group.label]
                values += _draw_mixed_line(panel, by_lam, t, positions, look, solid=split == splits[-1])
        _set_scale(panel, "y", range_of(values))
        panel.set(title=f"$t = {t:g}$", xlabel=_math(lam_axis(groups)), xscale="log")
        panel.set_xticks(list(positions.values()), list(ticks.values()))
        panel.xaxis.set_minor_locator(NullLocator())
    panels[0].set_ylabel("$(1 - t)$ main $+$ $t$ aux")
    return figure


def _math(name: str) -> str:
    """The name of λ in the font of formulas."""
    for letter, formula in (("λ₁", "$\\lambda_1$"), ("λ", "$\\lambda$"), ("τ", "$\\tau$")):
        name = name.replace(letter, formula)
    return name


def _draw_mixed_line(
    panel: Axes, by_lam: Sequence[SeedGroup], t: float, positions: dict[float, float], look: Look, *, solid: bool
) -> list[float]:
    """Draw one method on one split, and return its mean losses."""
    means, deviations = _columns(seeds.mixed_loss(t) for seeds in by_lam)
    if by_lam and by_lam[0].lam is None:
        panel.axhline(means[0], color=look.colour, **_stroke(solid))
        return means
    x = [positions[seeds.number] for seeds in by_lam if seeds.number is not None]
    panel.plot(x, means, **_marker(look, size=3) if solid else {"color": look.colour}, **_stroke(solid))
    low, high = _columns((mean - spread, mean + spread) for mean, spread in zip(means, deviations, strict=True))
    panel.fill_between(x, low, high, color=look.colour, alpha=0.15, linewidth=0)
    return means


def _create_panels(count: int, height: float, legend: list[Line2D]) -> tuple[Figure, list[Axes]]:
    """Panels side by side below a legend, as wide as a column for a single panel and as wide as the page for more."""
    columns = min(len(legend), 2 if count == 1 else 6 if len(legend) == 6 else 5)
    legend_height = 0.05 + 0.19 * math.ceil(len(legend) / columns)
    figure = Figure(figsize=(COLUMN if count == 1 else PAGE, height + legend_height), layout="constrained")
    figure.legend(handles=legend, loc="outside upper center", ncols=columns, frameon=False, handletextpad=0.5)
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def _legend_line(look: Look) -> Line2D:
    return Line2D([], [], **_marker(look), linewidth=1.2, label=look.label)


def _marker(look: Look, size: float = 4.5) -> dict[str, Any]:
    return {
        "marker": look.marker,
        "markersize": size,
        "color": look.colour,
        "markerfacecolor": "white" if look.hollow else look.colour,
        "markeredgewidth": 0.6,
    }


def _stroke(solid: bool) -> dict[str, Any]:
    return {"linestyle": "-", "linewidth": 1.4} if solid else {"linestyle": ":", "linewidth": 1.1}


def _set_scale(panel: Axes, side: str, losses: LossRange) -> None:
    """Fit an axis to a range of losses, with plain numbers as tick labels where they are short."""
    axis = panel.xaxis if side == "x" else panel.yaxis
    if losses.best < losses.worst:
        panel.set(**{f"{side}lim": axis_limits(losses, logarithmic=losses.logarithmic)})
    if losses.logarithmic:
        panel.set(**{f"{side}scale": "log"})
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if losses.worst < 100 * losses.best else (1,)))
        if losses.best > 1e-4 and losses.worst < 1e5:
            axis.set_major_formatter(lambda value, _: number(value))
        axis.set_minor_formatter(NullFormatter())


def _columns(points: Iterable[Point]) -> tuple[list[float], list[float]]:
    points = list(points)
    return [main for main, _ in points], [aux for _, aux in points]
