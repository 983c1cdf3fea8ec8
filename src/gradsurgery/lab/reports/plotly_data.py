"""The data of the page's charts, ready for JSON; ``report.js`` only draws it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from gradsurgery.lab.reports.looks import lam_positions, lam_ticks, number
from gradsurgery.lab.reports.outcomes import hyperparameters
from gradsurgery.lab.reports.pareto import front
from gradsurgery.lab.reports.region import region_of_fronts
from gradsurgery.lab.reports.series import Point, SeedGroup, Series, final_point, loss_point, splits_with_points
from gradsurgery.lab.run import Metrics, RunSpec

_MAX_TRAJECTORY_ROWS = 200  # keeps the page small


def chart_data(groups: Sequence[Series]) -> dict[str, Any]:
    """Everything that the charts draw, by series and split. Non-finite losses become null."""
    splits = splits_with_points(groups)
    lams = (seeds.lam for group in groups for split in splits for seeds in group.by_lam(split))
    ticks = lam_ticks(lams, room=6)
    positions = lam_positions(ticks)
    return {
        "splits": splits,
        "axes": {split: _axes(groups, split) for split in splits},
        "lam_ticks": {"positions": list(positions.values()), "labels": list(ticks.values())},
        "series": [
            {
                "label": group.look.label,
                "colour": group.look.colour,
                "symbol": group.look.symbol,
                "layers": {split: _layers(group, split, ticks) for split in splits},
                "by_lam": {split: [_seed_group(seeds, positions) for seeds in group.by_lam(split)] for split in splits},
            }
            for group in groups
        ],
    }


def _axes(groups: Sequence[Series], split: str) -> dict[str, Any]:
    """For each loss: whether its axis starts as logarithmic, and the range for either scale.

    Without a range plotly chooses one. A loss that is not always positive has no logarithmic range.
    """
    region = region_of_fronts(groups, split)
    points = [point for group in groups for point in group.final_points(split)]
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
    """The layers of a chart: trajectories, single runs, and means over seeds on the front and off it."""
    by_lam = group.by_lam(split)
    runs = [(record.spec, point) for record in group.records if (point := final_point(record, split))]
    has_seeds = any(seeds.runs > 1 for seeds in by_lam)
    best = front(seeds.mean for seeds in by_lam)
    on_front = sorted((seeds for seeds in by_lam if seeds.mean in best), key=lambda seeds: seeds.mean)
    return {
        "trajectories": _layer(point for record in group.records for point in _trajectory(record.metrics, split)),
        "runs": _layer((point, _hover_text(spec, point)) for spec, point in runs if has_seeds),
        "front": _means(group, on_front, ticks),
        "dominated": _means(group, [seeds for seeds in by_lam if seeds.mean not in best], ticks),
    }


def _trajectory(metrics: Sequence[Metrics], split: str) -> list[tuple[Point, str]]:
    """The losses during training, thinned so that the last row stays, and a gap that ends the line."""
    stride = max(math.ceil(len(metrics) / _MAX_TRAJECTORY_ROWS), 1)
    rows = metrics[::-stride][::-1]
    return [(loss_point(row, split), "") for row in rows] + [((math.nan, math.nan), "")]


def _layer(points: Iterable[tuple[Point, str]]) -> dict[str, list[Any]]:
    points = list(points)
    x, y = ([_round(point[index]) for point, _ in points] for index in (0, 1))
    texts = [text for _, text in points]
    return {"x": x, "y": y} | ({"hovertext": texts} if any(texts) else {})


def _means(group: Series, by_lam: Sequence[SeedGroup], ticks: Mapping[float, str]) -> dict[str, Any]:
    """Means over seeds, with error bars of one standard deviation and the labels of some λ to write beside them."""
    layer: dict[str, Any] = _layer((seeds.mean, _mean_hover_text(group, seeds)) for seeds in by_lam)
    layer["lams"] = ["" if seeds.lam is None else ticks[seeds.lam] for seeds in by_lam]
    for index, name in enumerate(("error_x", "error_y")):
        deviations = [_round(seeds.deviation[index]) for seeds in by_lam]
        if any(deviations):
            layer[name] = {"array": deviations}
    return layer


def _seed_group(seeds: SeedGroup, positions: dict[float, float]) -> dict[str, Any]:
    return {
        "position": None if seeds.lam is None else positions[seeds.lam],
        "lam": "" if seeds.lam is None else f"λ = {number(seeds.lam)}",
        "points": [[_round(main), _round(aux)] for main, aux in seeds.points],
    }


def _mean_hover_text(group: Series, seeds: SeedGroup) -> str:
    spec = next(record.spec for record in group.records if record.spec.lam == seeds.lam)
    if seeds.runs == 1:
        return _hover_text(spec, seeds.mean)
    finite = f"{len(seeds.points)} of " if len(seeds.points) < seeds.runs else ""
    return _hover_text(spec, seeds.mean, f"mean of {finite}{seeds.runs} seeds")


def _hover_text(spec: RunSpec, point: Point, seeds: str = "") -> str:
    lines = [f"<b>{escape(spec.method)}</b>", ", ".join([*hyperparameters(spec), seeds or f"seed {spec.seed}"])]
    return "<br>".join([*lines, f"main {number(point[0])}", f"aux {number(point[1])}"])


def _round(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None
