"""The chart of the fronts: final aux over final main, in one view."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeAlias

from gradsurgery.lab.analysis import Point, SeedGroup, Series, final_point, is_main_alone, lam_axis, main_alone
from gradsurgery.lab.reports.axes import axis_limits, drawn_region
from gradsurgery.lab.reports.style import MAIN_ALONE, Look
from gradsurgery.lab.reports.views import View
from gradsurgery.lab.run import RunRecord, RunSpec
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
    alone_points = main_alone(alone, view.name)
    traces = [trace for group in reversed(groups) for trace in _series_traces(group, view, looks[group.label], ticks)]
    if alone_points:
        traces.append(_main_alone_trace(alone, tuple(alone_points.values()), view))
    points = [*alone_points.values(), *(point for group in groups for point in group.final_points(view.name))]
    axes = _axes(groups, view, tuple(alone_points.values()), points)
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
    by_lam = group.by_lam(view.name)
    has_seeds = any(seeds.runs > 1 for seeds in by_lam)
    ends = ((record.spec, final_point(record, view.name)) for record in group.records if has_seeds)
    on_front, dominated = group.split_front(view.name)
    return [
        _trace(
            view,
            group.label,
            "runs",
            [(point, _hover(view, spec, point)) for spec, point in ends if point],
            mode="markers",
            opacity=0.5,
            marker=_marker(look, 5),
        ),
        _mean_trace(
            view, group, "dominated", dominated, look, ticks, mode="markers", opacity=0.5, marker=_marker(look, 9)
        ),
        _mean_trace(
            view,
            group,
            "front",
            on_front,
            look,
            ticks,
            mode="lines+markers+text",
            marker=_marker(look, 10),
            line={"color": look.colour, "width": 2.2},
            textfont={"color": look.colour, "size": 11},
            cliponaxis=False,
        ),
    ]


def _mean_trace(
    view: View,
    group: Series,
    layer: str,
    by_lam: Sequence[SeedGroup],
    look: Look,
    ticks: Mapping[float, str],
    **style: Any,
) -> Trace:
    """Means over seeds, with error bars of one standard deviation and the labels to write beside them."""
    specs = {record.spec.lam: record.spec for record in reversed(group.records)}
    points = [(seeds.mean, _mean_hover(view, specs[seeds.lam], seeds)) for seeds in by_lam]
    trace = _trace(view, group.label, layer, points, **style)
    trace["labels"] = ["" if seeds.number is None else ticks[seeds.number] for seeds in by_lam]
    return trace | _error_bars(by_lam, f"{look.colour}80")


def _main_alone_trace(alone: Sequence[RunRecord], points: tuple[Point, ...], view: View) -> Trace:
    """The mean over seeds of training on main alone."""
    seeds = SeedGroup(0.0, points, runs=len(alone))
    trace = _trace(
        view,
        MAIN_ALONE.label,
        "main alone",
        [(seeds.mean, _mean_hover(view, alone[0].spec, seeds))],
        mode="markers+text",
        marker={"symbol": MAIN_ALONE.symbol, "size": 15, "color": "var(--ink)"},
        textfont={"color": "var(--ink)", "size": 11},
        cliponaxis=False,
    )
    return trace | {"labels": [MAIN_ALONE.label]} | _error_bars([seeds], "var(--ink)")


def _trace(view: View, series: str, layer: str, points: Iterable[tuple[Point, str]], **style: Any) -> Trace:
    points = list(points)
    x = [round_loss(view.main.sign * main) for (main, _), _ in points]
    y = [round_loss(view.aux.sign * aux) for (_, aux), _ in points]
    meta = {"series": series, "layer": layer}
    return {"type": "scatter", "meta": meta, "x": x, "y": y, "hovertext": [text for _, text in points]} | {
        "hoverinfo": "text", "name": series, **style,
    }  # fmt: skip


def _marker(look: Look, size: int) -> dict[str, Any]:
    return {"symbol": look.symbol, "size": size, "color": look.colour}


def _error_bars(by_lam: Sequence[SeedGroup], colour: str) -> Trace:
    bars = {}
    for loss, name in enumerate(("error_x", "error_y")):
        deviations = [round_loss(seeds.deviation[loss]) for seeds in by_lam]
        if any(deviations):
            bars[name] = {"array": deviations, "color": colour, "thickness": 1, "width": 0}
    return bars


def _axes(groups: Sequence[Series], view: View, alone: Sequence[Point], points: Sequence[Point]) -> dict[str, Any]:
    """For each loss: whether its axis starts as logarithmic, and the range for either scale.

    Without a range plotly chooses one. A cost that is not always positive has no logarithmic range. The axis of a
    metric to maximise runs backwards.
    """
    region = drawn_region(groups, view.name, alone)
    axes = {}
    for index, (name, objective, losses) in enumerate(
        (("main", view.main, region.main), ("aux", view.aux, region.aux))
    ):
        values = [point[index] for point in points]
        low, high = axis_limits(losses, logarithmic=losses.logarithmic)
        has_width, positive = losses.best < losses.worst, min(values) > 0
        axes[name] = {
            "title": objective.title,
            "logarithmic": losses.logarithmic,
            "can_be_logarithmic": positive,
            "linear_range": [objective.sign * end for end in axis_limits(losses, logarithmic=False)]
            if has_width
            else None,
            "log_range": axis_limits(losses, logarithmic=True) if has_width and positive else None,
            "outside": sum(not low <= value <= high for value in values),
        }
    return axes


def _mean_hover(view: View, spec: RunSpec, seeds: SeedGroup) -> str:
    if seeds.runs == 1:
        return _hover(view, spec, seeds.mean)
    finite = f"{len(seeds.points)} of " if len(seeds.points) < seeds.runs else ""
    return _hover(view, spec, seeds.mean, f"mean of {finite}{seeds.runs} seeds")


def _hover(view: View, spec: RunSpec, point: Point, seeds: str = "") -> str:
    name = MAIN_ALONE.label if is_main_alone(spec) else spec.method
    run = ", ".join([*hyperparameters(spec.lam, spec.rho), seeds or f"seed {spec.seed}"])
    main, aux = (
        f"{escape(each.name)} {number(each.sign * cost)}"
        for each, cost in zip((view.main, view.aux), point, strict=True)
    )
    return "<br>".join([f"<b>{escape(name)}</b>", run, main, aux])


def round_loss(value: float) -> float | None:
    """A loss as it is written into the page; None if it is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
