"""What the charts of a report show, ready for JSON: the page's script only draws it."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from gradsurgery.lab.reports import pareto
from gradsurgery.lab.reports.looks import lam_places, lam_ticks, number
from gradsurgery.lab.reports.series import Level, Point, Series, final_point, losses, splits
from gradsurgery.lab.run import Metrics, RunSpec

_ROWS = 200
"""How many rows of a trajectory are drawn at most: more would only make the page heavy."""


def chart_data(groups: Sequence[Series]) -> dict[str, Any]:
    """All that is drawn, by series and split; a loss that is not finite is null."""
    shown = splits(groups)
    ticks = lam_ticks((level.lam for group in groups for split in shown for level in group.levels(split)), room=6)
    places = lam_places(ticks)
    return {
        "splits": shown,
        "axes": {split: _axes(groups, split) for split in shown},
        "ticks": {"at": list(places.values()), "text": list(ticks.values())},
        "series": [
            {
                "label": group.look.label,
                "colour": group.look.colour,
                "symbol": group.look.symbol,
                "front": {split: _front(group, split) for split in shown},
                "levels": {split: [_level(level, places) for level in group.levels(split)] for split in shown},
            }
            for group in groups
        ],
    }


def _axes(groups: Sequence[Series], split: str) -> dict[str, Any]:
    """For each loss whether its axis begins as logarithmic, and the ranges; no range lets plotly choose.

    A loss that is negative somewhere has no logarithmic range, and the page offers none.
    """
    box = pareto.box(groups, split)
    points = [point for group in groups for point in group.points(split)]
    axes = {}
    for name, axis, values in (("main", box.main, _column(points, 0)), ("aux", box.aux, _column(points, 1))):
        low, high = axis.view(axis.logarithmic)
        axes[name] = {
            "logarithmic": axis.logarithmic,
            "can_be_logarithmic": min(values) > 0,
            "linear_range": axis.view(logarithmic=False) if axis.best < axis.worst else None,
            "log_range": axis.view(logarithmic=True) if axis.best < axis.worst and min(values) > 0 else None,
            "outside": sum(not low <= value <= high for value in values),
        }
    return axes


def _front(group: Series, split: str) -> dict[str, Any]:
    """The layers of a front: the ways there, single runs, and the means over seeds that form the front or do not."""
    levels = group.levels(split)
    runs = [(record.spec, point) for record in group.records if (point := final_point(record, split))]
    several = any(level.runs > 1 for level in levels)
    best = pareto.front(level.mean for level in levels)
    joined = sorted((level for level in levels if level.mean in best), key=lambda level: level.mean)
    beaten = [level for level in levels if level.mean not in best]
    return {
        "trajectories": _layer(point for record in group.records for point in _trajectory(record.metrics, split)),
        "runs": _layer((point, _text(spec, f"seed {spec.seed}", point)) for spec, point in runs if several),
        "joined": _layer((level.mean, _level_text(group, level)) for level in joined),
        "beaten": _layer((level.mean, _level_text(group, level)) for level in beaten),
    }


def _trajectory(metrics: Sequence[Metrics], split: str) -> list[tuple[Point, str]]:
    """Its rows, thinned from the last backwards, and a gap behind them."""
    stride = max(math.ceil(len(metrics) / _ROWS), 1)
    rows = metrics[::-stride][::-1]
    return [(losses(row, split), "") for row in rows] + [((math.nan, math.nan), "")]


def _layer(points: Iterable[tuple[Point, str]]) -> dict[str, list[Any]]:
    rows = list(points)
    x, y = ([_rounded(point[place]) for point, _ in rows] for place in (0, 1))
    texts = [text for _, text in rows]
    return {"x": x, "y": y} | ({"text": texts} if any(texts) else {})


def _level(level: Level, places: dict[float, float]) -> dict[str, Any]:
    return {
        "place": None if level.lam is None else places[level.lam],
        "lam": "" if level.lam is None else f"λ = {number(level.lam)}",
        "points": [[_rounded(main), _rounded(aux)] for main, aux in level.points],
    }


def _level_text(group: Series, level: Level) -> str:
    spec = next(record.spec for record in group.records if record.spec.lam == level.lam)
    ended = f"{len(level.points)} of " if len(level.points) < level.runs else ""
    which = f"mean of {ended}{level.runs} seeds" if level.runs > 1 else f"seed {spec.seed}"
    return _text(spec, which, level.mean)


def _text(spec: RunSpec, which: str, point: Point) -> str:
    """What hovering shows."""
    settings = [f"{name} = {number(value)}" for name, value in (("λ", spec.lam), ("ρ", spec.rho)) if value is not None]
    lines = [f"<b>{escape(spec.method)}</b>", ", ".join([*settings, which])]
    return "<br>".join([*lines, f"main {number(point[0])}", f"aux {number(point[1])}"])


def _rounded(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _column(points: Sequence[Point], place: int) -> list[float]:
    return [point[place] for point in points]
