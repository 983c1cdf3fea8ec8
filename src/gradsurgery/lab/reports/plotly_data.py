"""The data of the page's charts, ready for JSON; ``report.js`` only draws it."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from gradsurgery.lab.lam import Lam
from gradsurgery.lab.reports.curves import curve_data
from gradsurgery.lab.reports.looks import MAIN_ALONE, lam_positions, lam_ticks, number, variant, variant_of
from gradsurgery.lab.reports.options import Option, collect_options, main_alone
from gradsurgery.lab.reports.outcomes import hyperparameters
from gradsurgery.lab.reports.pareto import front
from gradsurgery.lab.reports.recommend import describe_excess, recommend
from gradsurgery.lab.reports.region import drawn_region
from gradsurgery.lab.reports.series import (
    Point,
    SeedGroup,
    Series,
    final_point,
    is_main_alone,
    lam_name,
    splits_with_points,
)
from gradsurgery.lab.run import RunRecord, RunSpec

ALLOWANCES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
"""The stops of the slider for the allowance."""


def chart_data(records: Sequence[RunRecord], groups: Sequence[Series]) -> dict[str, Any]:
    """Everything that the charts draw, by series and split. Non-finite losses become null."""
    splits = splits_with_points(groups)
    alone = [record for record in records if is_main_alone(record.spec)]
    lams = (seeds.number for group in groups for split in splits for seeds in group.by_lam(split))
    ticks = lam_ticks(lams, room=6)
    positions = lam_positions(ticks)
    return {
        "splits": splits,
        "axes": {split: _axes(groups, split, alone) for split in splits},
        "lam_name": lam_name(groups),
        "lam_ticks": {"positions": list(positions.values()), "labels": list(ticks.values())},
        "allowances": ALLOWANCES,
        "recommend": _recommendation_data(records, groups, splits),
        "main_alone": _main_alone_data(alone, splits, len(records)),
        "series": [
            {
                "label": group.look.label,
                "colour": group.look.colour,
                "symbol": group.look.symbol,
                "layers": {split: _layers(group, split, ticks) for split in splits},
                "curves": curve_data(group.records, len(records)),
                "by_lam": {split: _mixed_loss_points(group, split, positions) for split in splits},
            }
            for group in groups
        ],
    }


def _main_alone_data(alone: Sequence[RunRecord], splits: Sequence[str], runs_on_page: int) -> dict[str, Any] | None:
    """The mean over seeds of training on main alone; None if no such run has finite losses."""
    layers = {}
    for split in splits:
        if points := tuple(main_alone(alone, split).values()):
            seeds = SeedGroup(0.0, points, runs=len(alone))
            layers[split] = _with_errors(_layer([(seeds.mean, _mean_hover_text(alone[0].spec, seeds))]), [seeds])
    if not layers:
        return None
    return {
        "label": MAIN_ALONE.label,
        "symbol": MAIN_ALONE.symbol,
        "layers": layers,
        "curves": curve_data(alone, runs_on_page),
    }


def _recommendation_data(
    records: Sequence[RunRecord], groups: Sequence[Series], splits: Sequence[str]
) -> dict[str, Any] | None:
    """The options of each method, from which ``recommend.js`` chooses; None if nothing can be recommended."""
    try:
        recommend(records)
    except ValueError:
        return None
    options = collect_options(records)
    if options.split not in splits:
        return None
    series = {variant_of(record.spec): group for group in groups for record in group.records}

    def describe(option: Option) -> dict[str, Any]:
        group = series[variant(option.method, option.rho, option.lam)]
        means = {split: _mean_at(group, split, option.lam) for split in splits}
        safe = option.safe_excess()
        return {
            "series": group.look.label,
            "lam": str(option.lam),
            "excess": option.excess(),
            "safe_excess": safe if math.isfinite(safe) else None,
            "aux": option.aux.difference,
            "text": option.describe(),
            "caveat": option.caveat,
            "points": {split: [_round(main), _round(aux)] for split, (main, aux) in means.items()},
        }

    losses = [main for main, _ in main_alone(records, options.split).values()]
    return {
        "split": options.split,
        "main_alone": statistics.fmean(losses),
        "methods": [
            {
                "beyond": describe_excess(method, candidates),
                "options": [describe(option) for option in candidates],
            }
            for method, candidates in options.by_method.items()
        ],
    }


def _mean_at(group: Series, split: str, lam: Lam | None) -> Point:
    means = [seeds.mean for seeds in group.by_lam(split) if seeds.lam == lam]
    return means[0] if means else (math.nan, math.nan)


def _axes(groups: Sequence[Series], split: str, alone: Sequence[RunRecord]) -> dict[str, Any]:
    """For each loss: whether its axis starts as logarithmic, and the range for either scale.

    Without a range plotly chooses one. A loss that is not always positive has no logarithmic range.
    """
    alone_points = main_alone(alone, split).values()
    region = drawn_region(groups, split, alone_points)
    points = [*alone_points, *(point for group in groups for point in group.final_points(split))]
    axes = {}
    for index, (name, losses) in enumerate((("main", region.main), ("aux", region.aux))):
        values = [point[index] for point in points]
        low, high = losses.axis_limits(losses.logarithmic)
        has_width, positive = losses.best < losses.worst, min(values) > 0
        axes[name] = {
            "logarithmic": losses.logarithmic,
            "can_be_logarithmic": positive,
            "linear_range": losses.axis_limits(logarithmic=False) if has_width else None,
            "log_range": losses.axis_limits(logarithmic=True) if has_width and positive else None,
            "outside": sum(not low <= value <= high for value in values),
        }
    return axes


def _layers(group: Series, split: str, ticks: Mapping[float, str]) -> dict[str, Any]:
    """The layers of a chart: single runs, and means over seeds on the front and off it."""
    by_lam = group.by_lam(split)
    runs = [(record.spec, point) for record in group.records if (point := final_point(record, split))]
    has_seeds = any(seeds.runs > 1 for seeds in by_lam)
    best = front(seeds.mean for seeds in by_lam)
    on_front = sorted((seeds for seeds in by_lam if seeds.mean in best), key=lambda seeds: seeds.mean)
    return {
        "runs": _layer((point, _hover_text(spec, point)) for spec, point in runs if has_seeds),
        "front": _means(group, on_front, ticks),
        "dominated": _means(group, [seeds for seeds in by_lam if seeds.mean not in best], ticks),
    }


def _layer(points: Iterable[tuple[Point, str]]) -> dict[str, list[Any]]:
    points = list(points)
    x, y = ([_round(point[index]) for point, _ in points] for index in (0, 1))
    texts = [text for _, text in points]
    return {"x": x, "y": y} | ({"hovertext": texts} if any(texts) else {})


def _means(group: Series, by_lam: Sequence[SeedGroup], ticks: Mapping[float, str]) -> dict[str, Any]:
    """Means over seeds, with error bars of one standard deviation and the labels of some λ to write beside them."""
    layer: dict[str, Any] = _layer(
        (seeds.mean, _mean_hover_text(_spec_at(group, seeds.lam), seeds)) for seeds in by_lam
    )
    layer["lams"] = ["" if seeds.number is None else ticks[seeds.number] for seeds in by_lam]
    return _with_errors(layer, by_lam)


def _with_errors(layer: dict[str, Any], by_lam: Sequence[SeedGroup]) -> dict[str, Any]:
    for index, name in enumerate(("error_x", "error_y")):
        deviations = [_round(seeds.deviation[index]) for seeds in by_lam]
        if any(deviations):
            layer[name] = {"array": deviations}
    return layer


def _mixed_loss_points(group: Series, split: str, positions: dict[float, float]) -> list[dict[str, Any]]:
    """For each λ: its position on the axis, its name and value, and the final losses of its runs."""
    name = lam_name([group])
    return [
        {
            "position": None if seeds.number is None else positions[seeds.number],
            "lam": "" if seeds.number is None else f"{name} = {number(seeds.number)}",
            "points": [[_round(main), _round(aux)] for main, aux in seeds.points],
        }
        for seeds in group.by_lam(split)
    ]


def _spec_at(group: Series, lam: Lam | None) -> RunSpec:
    return next(record.spec for record in group.records if record.spec.lam == lam)


def _mean_hover_text(spec: RunSpec, seeds: SeedGroup) -> str:
    if seeds.runs == 1:
        return _hover_text(spec, seeds.mean)
    finite = f"{len(seeds.points)} of " if len(seeds.points) < seeds.runs else ""
    return _hover_text(spec, seeds.mean, f"mean of {finite}{seeds.runs} seeds")


def _hover_text(spec: RunSpec, point: Point, seeds: str = "") -> str:
    name = MAIN_ALONE.label if is_main_alone(spec) else spec.method
    lines = [f"<b>{escape(name)}</b>", ", ".join([*hyperparameters(spec), seeds or f"seed {spec.seed}"])]
    return "<br>".join([*lines, f"main {number(point[0])}", f"aux {number(point[1])}"])


def _round(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
