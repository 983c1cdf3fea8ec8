"""The chart of the fronts: final aux over final main, in one view."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any, TypeAlias

from gradsurgery.lab.analysis.pareto import Point, Region
from gradsurgery.lab.analysis.series import SeedGroup, Series, group_alone, group_seeds, is_main_alone, lam_axis
from gradsurgery.lab.reports.axes import axis_limits, drawn_region
from gradsurgery.lab.reports.style import MAIN_ALONE, Look
from gradsurgery.lab.reports.views import View
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.text import hyperparameters, number

Trace: TypeAlias = dict[str, Any]


def front_chart(
    groups: Sequence[Series],
    view: View,
    alone: Sequence[RunRecord],
    looks: Mapping[str, Look],
    ticks: Mapping[float, str],
) -> dict[str, Any]:
    """The traces, the axes of both losses, and a note on how to read them."""
    star = group_alone(alone, view.name)
    traces = [trace for group in reversed(groups) for trace in _series_traces(group, view, looks[group.label], ticks)]
    if star:
        traces.append(_main_alone_trace(view, star))
    points = [*(star.points if star else ()), *(point for group in groups for point in group.final_points(view.name))]
    axes = _axes(drawn_region(groups, view.name, star), view, points)
    name = lam_axis(groups)
    outside = max(axis["outside"] for axis in axes.values())
    has_seeds = any(trace["meta"]["layer"] == "runs" and trace["x"] for trace in traces)
    sentences = [
        f"Large markers: mean over seeds at one {name}, ± one standard deviation; small markers: single runs."
        if has_seeds
        else "Each marker is one run.",
        f"Numbers beside markers: {name}.",
        f"A line joins the points that no other {name} of the same method dominates.",
        f"{outside} final point{'s are' if outside > 1 else ' is'} far outside the chart: double-click it to show all."
        if outside
        else "",
    ]
    return {"traces": traces, "axes": axes, "note": " ".join(filter(None, sentences))}


def _series_traces(group: Series, view: View, look: Look, ticks: Mapping[float, str]) -> list[Trace]:
    """Single runs, means over seeds off the front, and the front; the last is drawn on top."""
    has_seeds = any(seeds.runs > 1 for seeds in group.by_lam(view.name))
    runs = [run for record in group.records if has_seeds and (run := group_seeds([record], view.name))]
    on_front, dominated = group.split_front(view.name)
    bars = f"{look.colour}80"
    return [
        _trace(view, look, "runs", runs, 5, bars, mode="markers", opacity=0.5),
        _trace(view, look, "dominated", dominated, 9, bars, mode="markers", opacity=0.5),
        _trace(view, look, "front", on_front, 10, bars, mode="lines+markers+text")
        | {
            "labels": ["" if seeds.number is None else ticks[seeds.number] for seeds in on_front],
            "line": {"color": look.colour, "width": 2.2},
            "textfont": {"color": look.colour, "size": 11},
            "cliponaxis": False,
        },
    ]


def _main_alone_trace(view: View, star: SeedGroup) -> Trace:
    look = replace(MAIN_ALONE, colour="var(--ink)")
    return _trace(view, look, "main alone", [star], 15, look.colour, mode="markers+text") | {
        "labels": [look.label],
        "textfont": {"color": look.colour, "size": 11},
        "cliponaxis": False,
    }


def _trace(
    view: View, look: Look, layer: str, by_lam: Sequence[SeedGroup], size: int, bars: str, **style: Any
) -> Trace:
    """Means over seeds, with error bars of one standard deviation in the colour ``bars``."""
    ends = [view.values(seeds.mean) for seeds in by_lam]
    trace = {
        "type": "scatter",
        "name": look.label,
        "meta": {"series": look.label, "layer": layer},
        "x": [round_loss(main) for main, _ in ends],
        "y": [round_loss(aux) for _, aux in ends],
        "hovertext": [_hover(view, seeds) for seeds in by_lam],
        "hoverinfo": "text",
        "marker": {"symbol": look.symbol, "size": size, "color": look.colour},
    }
    for loss, name in enumerate(("error_x", "error_y")):
        deviations = [round_loss(seeds.deviation[loss]) for seeds in by_lam]
        if any(deviations):
            trace[name] = {"array": deviations, "color": bars, "thickness": 1, "width": 0}
    return trace | style


def _axes(region: Region, view: View, points: Sequence[Point]) -> dict[str, Any]:
    """For each loss: whether its axis starts as logarithmic, and the range for either scale.

    Without a range plotly chooses one. A cost that is not always positive has no logarithmic range. The axis of a
    metric to maximise runs backwards.
    """
    axes = {}
    main, aux = zip(*points, strict=True)
    for name, objective, losses, values in (("main", view.main, region.main, main), ("aux", view.aux, region.aux, aux)):
        low, high = axis_limits(losses, logarithmic=losses.logarithmic)
        has_width, positive = losses.best < losses.worst, min(values) > 0
        linear = [objective.sign * end for end in axis_limits(losses, logarithmic=False)]
        axes[name] = {
            "title": objective.title,
            "logarithmic": losses.logarithmic,
            "can_be_logarithmic": positive,
            "linear_range": linear if has_width else None,
            "log_range": axis_limits(losses, logarithmic=True) if has_width and positive else None,
            "outside": sum(not low <= value <= high for value in values),
        }
    return axes


def _hover(view: View, seeds: SeedGroup) -> str:
    spec, finite = seeds.spec, f"{len(seeds.points)} of " if len(seeds.points) < seeds.runs else ""
    name = MAIN_ALONE.label if is_main_alone(spec) else spec.method
    run = [*hyperparameters(spec.lam, spec.rho)]
    run += [f"seed {spec.seed}" if seeds.runs == 1 else f"mean of {finite}{seeds.runs} seeds"]
    ends = zip((view.main, view.aux), view.values(seeds.mean), strict=True)
    losses = [f"{escape(each.name)} {number(value)}" for each, value in ends]
    return "<br>".join([f"<b>{escape(name)}</b>", ", ".join(run), *losses])


def round_loss(value: float) -> float | None:
    """A loss as it is written into the page; None if it is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
