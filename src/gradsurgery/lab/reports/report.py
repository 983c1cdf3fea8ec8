"""A report on a sweep: one HTML page that works offline, and figures for a paper beside it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from gradsurgery.lab.analysis.allowance import DEFAULT, Allowance
from gradsurgery.lab.analysis.compare import compare_methods
from gradsurgery.lab.analysis.conditions import condition_values, condition_warnings
from gradsurgery.lab.analysis.outcomes import has_losses, outcome_sentences, progress_sentences
from gradsurgery.lab.analysis.series import Series, group_runs, is_main_alone, lam_axis, splits_with_points
from gradsurgery.lab.atomic import write_atomically
from gradsurgery.lab.find import find_installed
from gradsurgery.lab.lam import is_relative, named_numbers
from gradsurgery.lab.notebook import ReportPath
from gradsurgery.lab.objective import judge_by, read_objectives
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.reports.answer import page_answers
from gradsurgery.lab.reports.charts import chart_data
from gradsurgery.lab.reports.figures import STANDARD_FIGURES, save_figures
from gradsurgery.lab.reports.page import embed_png, render
from gradsurgery.lab.reports.style import assign_looks
from gradsurgery.lab.reports.tables import comparison_rows, failed_seeds, metric_names, metric_rows, sample_rows
from gradsurgery.lab.reports.views import find_views
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.text import number


def report(
    records: Iterable[RunRecord],
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

    Each file is replaced atomically, the page last, so a page never refers to a figure that is not there.

    Args:
        records: what ``sweep`` returned, or ``Store.select``. Unfinished and failed runs are counted, not drawn.
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
    records, folder, allowance = list(records), Path(folder), Allowance(allow, absolute)
    if not records:
        raise ValueError("a report needs at least one run; got none")
    spec = records[0].spec
    declared = problem or find_installed(spec.problem)
    if objectives := read_objectives(maximise, minimise) or (declared.objectives if declared else {}):
        records = judge_by(objectives, records)
    groups = group_runs(records)
    folder.mkdir(parents=True, exist_ok=True)
    figures = save_figures(records, folder / "figures", declared.draw if declared else None)
    path = folder / "report.html"
    answers = page_answers(records, allowance)
    warnings = [*outcome_sentences(records), *condition_warnings(records)]
    if answers is None or answers.reason:
        warnings += progress_sentences(records)
    if any(map(has_losses, records)) and not splits_with_points(groups):
        warnings.append("No run ended with finite losses, so there is nothing to draw.")
    values = {
        "title": f"{spec.problem}, {spec.scale}" if title is None else title,
        "facts": _facts(records) | (declared.losses if declared else {}),
        "warnings": warnings,
        "answers": answers,
        "images": [(path.stem, embed_png(path.read_bytes())) for path in figures if _is_extra_image(path)],
        "figures": [path.name for path in figures],
        "conditions": condition_values(records),
        "failures": failed_seeds(records),
        "plotly": Markup(get_plotlyjs()),
        "data": _as_json(chart_data(records, answers)),
        **_tables(records, groups),
    }
    write_atomically(path, render("report.html", values))
    return ReportPath(path)


def _tables(records: Sequence[RunRecord], groups: Sequence[Series]) -> dict[str, object]:
    looks, splits = assign_looks(groups), splits_with_points(groups)
    comparisons = {split: compare_methods(records, split) for split in splits}
    return {
        "looks": list(looks.values()),
        "splits": splits,
        "views": find_views(records)[1],
        "lam_axis": lam_axis(groups),
        "rival": next((comparison.rival for comparison in comparisons.values()), ""),
        "comparison": comparison_rows(comparisons, looks),
        "metric_names": metric_names(groups),
        "metrics": metric_rows(groups, looks),
        "samples": sample_rows(groups, looks),
    }


def _facts(records: Sequence[RunRecord]) -> dict[str, str]:
    specs = [record.spec for record in records]
    lams: dict[str, set[float]] = {}
    has_relative = any(is_relative(spec.lam) for spec in specs)
    for spec in specs:
        for name, value in () if has_relative and is_main_alone(spec) else named_numbers(spec.lam):
            lams.setdefault(name, set()).add(value)
    facts = {
        "Problem": specs[0].problem,
        "Scale": specs[0].scale,
        "Runs": f"{len(records)}",
        "Seeds": f"{len({spec.seed for spec in specs})}",
        **{name.replace("relative", "Relative"): _values(numbers) for name, numbers in lams.items()},
        "ρ": _values({spec.rho for spec in specs}),
    }
    return {name: fact for name, fact in facts.items() if fact}


def _values(values: Iterable[float | None]) -> str:
    numbers = sorted(value for value in values if value is not None)
    if len(numbers) > 4:
        return f"{len(numbers)} values from {number(numbers[0])} to {number(numbers[-1])}"
    return ", ".join(map(number, numbers))


def _is_extra_image(path: Path) -> bool:
    """True for a figure that the problem adds, which is embedded in the page."""
    return path.suffix == ".png" and path.stem not in STANDARD_FIGURES


def _as_json(data: object) -> Markup:
    # a "</script>" in a string would end the script
    return Markup(json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"))
