"""``lab.report``: what ``gradsurgery report`` does, as a Python call."""

from collections.abc import Sequence
from pathlib import Path

from gradsurgery.lab.find import is_reference
from gradsurgery.lab.objective import judge_by
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.store.select import find_declared


def report(
    records: Sequence[RunRecord], folder: str | Path, *, title: str | None = None, problem: Problem | None = None
) -> Path:
    """Write a report on the runs of one problem: one HTML page, and figures as PNG and PDF beside it.

    Args:
        records: what ``sweep`` returned, or ``Store.select``.
        folder: created if needed; an older report in it is replaced.
        title: the heading; by default the problem's name and scale.
        problem: has the losses in words, names the metrics to judge by, and draws figures; by default the installed
            problem of this name.

    Returns:
        The path of ``report.html``.
    """
    from gradsurgery.lab.reports import write_report  # loads matplotlib and plotly

    if not records:
        return write_report(records, Path(folder), "")  # raises
    spec = records[0].spec
    declared = problem
    if declared is None and not is_reference(spec.problem):  # a reference would be imported
        declared = find_declared(spec.problem)
    if declared is not None:
        records = judge_by(declared.objectives, records)
    return write_report(
        records,
        Path(folder),
        f"{spec.problem}, {spec.scale}" if title is None else title,
        draw=declared.draw if declared else None,
        about=declared.losses if declared else None,
    )
