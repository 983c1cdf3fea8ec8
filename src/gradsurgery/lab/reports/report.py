"""A report on a sweep: one HTML page that works offline, and figures for a paper beside it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from markupsafe import Markup
from plotly.offline import get_plotlyjs

from gradsurgery.lab.analysis import (
    DEFAULT,
    Allowance,
    Series,
    compare_methods,
    condition_values,
    condition_warnings,
    group_runs,
    has_losses,
    is_main_alone,
    lam_axis,
    outcome_sentences,
    progress_sentences,
    splits_with_points,
)
from gradsurgery.lab.atomic import write_atomically
from gradsurgery.lab.lam import is_relative, named_numbers
from gradsurgery.lab.reports.answer import page_answers
from gradsurgery.lab.reports.charts import chart_data
from gradsurgery.lab.reports.figures import STANDARD_FIGURES, Drawing, save_figures
from gradsurgery.lab.reports.page import embed_png, render
from gradsurgery.lab.reports.style import assign_looks
from gradsurgery.lab.reports.tables import comparison_rows, failure_rows, metric_names, metric_rows, sample_tables
from gradsurgery.lab.reports.views import find_views
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.text import number


def write_report(
    records: Iterable[RunRecord],
    folder: Path,
    title: str,
    draw: Drawing | None = None,
    about: Mapping[str, str] | None = None,
    allowance: Allowance = DEFAULT,
) -> Path:
    """Write ``report.html``, ``figures/*.png`` and ``figures/*.pdf`` into the folder, and return the path of the page.

    Each file is replaced atomically, the page last, so a page never refers to a figure that is not there.

    Args:
        records: runs of one problem at one scale, at least one. Unfinished and failed runs are counted, not drawn.
        folder: created if needed; an older report in it is replaced.
        title: the heading of the page.
        draw: draws further figures, by file name, from the finished runs.
        about: facts to add at the top, by name, such as the meaning of the losses.
        allowance: how much worse main may be in the answer that is open.
    """
    records = list(records)
    if not records:
        raise ValueError("a report needs at least one run; got none")
    groups = group_runs(records)
    folder.mkdir(parents=True, exist_ok=True)
    figures = save_figures(records, folder / "figures", draw)
    path = folder / "report.html"
    answers = page_answers(records, allowance)
    warnings = [*outcome_sentences(records), *condition_warnings(records)]
    if answers is None or answers.reason:
        warnings += progress_sentences(records)
    if any(map(has_losses, records)) and not splits_with_points(groups):
        warnings.append("No run ended with finite losses, so there is nothing to draw.")
    values = {
        "title": title,
        "facts": _facts(records) | dict(about or {}),
        "warnings": warnings,
        "answers": answers,
        "images": [(path.stem, embed_png(path.read_bytes())) for path in figures if _is_extra_image(path)],
        "figures": [path.name for path in figures],
        "conditions": condition_values(records),
        "failures": failure_rows(records),
        "plotly": Markup(get_plotlyjs()),
        "data": _as_json(chart_data(records, allowance)),
        **_tables(records, groups),
    }
    write_atomically(path, render("report.html", values))
    return path


def _tables(records: Sequence[RunRecord], groups: Sequence[Series]) -> dict[str, object]:
    looks, splits = assign_looks(groups), splits_with_points(groups)
    comparisons = {split: compare_methods(records, split) for split in splits}
    samples, unreadable = sample_tables(groups, looks)
    return {
        "looks": list(looks.values()),
        "splits": splits,
        "views": find_views(records)[1],
        "lam_axis": lam_axis(groups),
        "rival": next((comparison.rival for comparison in comparisons.values()), ""),
        "comparison": comparison_rows(comparisons, looks),
        "metric_names": metric_names(groups),
        "metrics": metric_rows(groups, looks),
        "samples": samples,
        "unreadable_samples": unreadable,
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
