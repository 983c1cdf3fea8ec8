"""Training curves for the page: losses and diagnostics over steps, thinned so that a page of 2,000 runs stays small."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gradsurgery.lab.reports.views import View
from gradsurgery.lab.run import Metrics, RunRecord
from gradsurgery.lab.text import hyperparameters

DIAGNOSTICS = ("surgery/removed", "surgery/conflict")
WINDOW, MIN_WINDOW = 0.1, 5
"""Diagnostics are averaged over this fraction of a run's rows, at least this many: a row may hold a single step."""
MAX_ROWS, MAX_ROWS_PER_RUN = 50_000, 200
"""Rows on the page, of all runs together and of each."""


def curve_data(records: Sequence[RunRecord], views: Sequence[View], runs_on_page: int) -> list[dict[str, Any]]:
    """The curves of each run with rows, by metric; a metric that the run lacks is left out.

    The more runs share the page, the fewer rows of each are kept.
    """
    max_rows = max(min(MAX_ROWS // runs_on_page, MAX_ROWS_PER_RUN), 2)
    metrics = {f"main_{view.name}": view.main.metric for view in views}
    metrics |= {f"aux_{view.name}": view.aux.metric for view in views}
    return [_curves(record, metrics, max_rows) for record in records if record.status == "done" and record.metrics]


def _curves(record: RunRecord, metrics: Mapping[str, str], max_rows: int) -> dict[str, Any]:
    rows, spec = record.metrics, record.spec
    kept = _spread_evenly(len(rows), max_rows)
    curves: dict[str, Any] = {
        "name": ", ".join([*hyperparameters(spec.lam, spec.rho), f"seed {spec.seed}"]),
        "lam": str(spec.lam),
        "step": [rows[index].get("step") for index in kept],
    }
    for name, metric in metrics.items():
        if any(metric in row for row in rows):
            curves[name] = [_round(rows[index].get(metric, math.nan)) for index in kept]
    for name in DIAGNOSTICS:
        if any(name in row for row in rows):
            width = max(math.ceil(WINDOW * len(rows)), MIN_WINDOW)
            curves[name] = [_round(_mean(rows[max(index + 1 - width, 0) : index + 1], name)) for index in kept]
    return curves


def _spread_evenly(count: int, max_rows: int) -> list[int]:
    """Indices of at most ``max_rows`` rows, including the first and the last."""
    if count <= max_rows:
        return list(range(count))
    return [round(k * (count - 1) / (max_rows - 1)) for k in range(max_rows)]


def _mean(rows: Iterable[Metrics], name: str) -> float:
    values = [value for row in rows if math.isfinite(value := row.get(name, math.nan))]
    return statistics.fmean(values) if values else math.nan


def _round(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None
