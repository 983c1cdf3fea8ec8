"""``lab.recommend`` and ``lab.report``: what the commands of these names do, as Python calls."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from gradsurgery.lab.analysis import DEFAULT, Allowance, Recommendation, advise, collect_options
from gradsurgery.lab.find import find_installed
from gradsurgery.lab.notebook import Recommendations, ReportPath
from gradsurgery.lab.objective import judge_by, read_objectives
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import RunRecord


def report(
    records: Sequence[RunRecord],
    folder: str | Path,
    *,
    allow: float = DEFAULT.limit,
    absolute: bool = False,
    title: str | None = None,
    problem: Problem | None = None,
    maximise: Mapping[str, str] | None = None,
    minimise: Mapping[str, str] | None = None,
) -> Path:
    """Write a report on the runs of one problem: one HTML page, and figures as PNG and PDF beside it.

    Args:
        records: what ``sweep`` returned, or ``Store.select``.
        folder: created if needed; an older report in it is replaced.
        allow: how much worse main may be in the answer that the page opens with: 0.02 for 2 %.
        absolute: whether ``allow`` is a difference rather than a fraction.
        title: the heading; by default the problem's name and scale.
        problem: has the losses in words, names the metrics to judge by, and draws figures; by default the installed
            problem of this name.
        maximise: metrics to judge by instead of those of the problem, as in ``@lab.problem``.
        minimise: the same for metrics of which less is better.

    Returns:
        The path of ``report.html``. A notebook shows the page.
    """
    from gradsurgery.lab.reports.report import write_report  # loads matplotlib and plotly

    if not records:
        return write_report(records, Path(folder), "")  # raises
    spec = records[0].spec
    declared = problem or find_installed(spec.problem)
    named = read_objectives(maximise, minimise) or (declared.objectives if declared else {})
    page = write_report(
        judge_by(named, records) if named else records,
        Path(folder),
        f"{spec.problem}, {spec.scale}" if title is None else title,
        draw=declared.draw if declared else None,
        about=declared.losses if declared else None,
        allowance=Allowance(allow, absolute),
    )
    return ReportPath(page)


def recommend(
    records: Iterable[RunRecord],
    allow: float = DEFAULT.limit,
    *,
    absolute: bool = False,
    maximise: Mapping[str, str] | None = None,
    minimise: Mapping[str, str] | None = None,
) -> list[Recommendation]:
    """For each method, the λ and ρ with the best aux among those whose main stays within the allowance.

    Both are judged by the held-out losses if there are any, or by the metrics that ``@lab.problem`` names.

    Args:
        records: runs of one problem and scale; main alone (``mixed`` with λ = 0) is among them. If they have several
            settings, such as learning rates, one of them is recommended too, and compared with the best main alone.
        allow: how much worse main may be than main alone: 0.02 for 2 %.
        absolute: whether ``allow`` is a difference rather than a fraction.
        maximise: metrics to judge by instead of those of the problem, such as ``{"main": "accuracy_test"}``.
        minimise: the same for metrics of which less is better.

    Returns:
        One recommendation for each method, in the order of their aux, the best first. A notebook shows the best as
        code.
    """
    named = read_objectives(maximise, minimise)
    advice = advise(collect_options(judge_by(named, records) if named else records), Allowance(allow, absolute))
    return Recommendations(advice.recommendations, advice)
