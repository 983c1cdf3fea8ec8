"""A report on a sweep: one HTML page that works offline, and figures for a paper beside it.

The body of the page is ``report.html`` with the scripts, plotly.js and the data filled in.
"""

import json
import math
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from plotly.offline import get_plotlyjs

from gradsurgery.lab.atomic import write_atomically
from gradsurgery.lab.lam import lam_number
from gradsurgery.lab.reports.advice import advice_table
from gradsurgery.lab.reports.comparison import Comparison, compare
from gradsurgery.lab.reports.conditions import condition_tables, condition_warnings
from gradsurgery.lab.reports.figures import STANDARD_FIGURES, Drawing, save_figures
from gradsurgery.lab.reports.looks import Look, number
from gradsurgery.lab.reports.outcomes import outcome_sentences
from gradsurgery.lab.reports.page import read_resource, render_page
from gradsurgery.lab.reports.plotly_data import chart_data
from gradsurgery.lab.reports.series import SPLITS, Series, group_runs, is_main_alone, splits_with_points
from gradsurgery.lab.reports.tables import comparison_table, metrics_table, samples_section, swatch
from gradsurgery.lab.run import RunRecord
from gradsurgery.relative import relative

_SCRIPTS = ("labels.js", "recommend.js", "curves.js", "report.js")


def write_report(
    records: Iterable[RunRecord],
    folder: Path,
    title: str,
    draw: Drawing | None = None,
    about: Mapping[str, str] | None = None,
    *,
    missing: int = 0,
) -> Path:
    """Write ``report.html``, ``figures/*.png`` and ``figures/*.pdf`` into the folder, and return the path of the page.

    Each file is replaced atomically, the page last, so a page never refers to a figure that is not there.

    Args:
        records: runs of one problem at one scale, at least one. Unfinished and failed runs are counted, not drawn.
        folder: created if needed; an older report in it is replaced.
        title: the heading of the page.
        draw: draws further figures, by file name, from the finished runs.
        about: facts to add at the top, by name, such as the meaning of the losses.
        missing: how many runs of the grid are not stored at all.
    """
    records = list(records)
    if not records:
        raise ValueError("a report needs at least one run, but got none")
    groups = group_runs(records)
    splits = splits_with_points(groups)
    comparisons = {split: compare(records, split) for split in splits}
    folder.mkdir(parents=True, exist_ok=True)
    figures = save_figures(records, folder / "figures", draw)
    body = Template(read_resource("report.html")).substitute(
        title=escape(title),
        facts=_facts(records, about or {}),
        advice=_advice(records),
        finding=_finding(groups, comparisons),
        warnings=_warnings([*outcome_sentences(records, missing), *condition_warnings(records)]),
        methods="".join(_method_button(group.look) for group in groups),
        splits="".join(f'<button type="button" data-split="{split}">{split}</button>' for split in splits),
        comparison=comparison_table(comparisons, groups),
        metrics=metrics_table(groups),
        samples=samples_section(groups),
        conditions=condition_tables(records),
        images=_images(figures),
        figure_links=_figure_links(figures),
        plotly=get_plotlyjs(),
        # a "</script>" in a string would end the script
        data=json.dumps(chart_data(records, groups), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c"),
        scripts="".join(f"<script>\n{read_resource(name)}</script>\n" for name in _SCRIPTS),
    )
    path = folder / "report.html"
    write_atomically(path, render_page(title, body))
    return path


def _advice(records: Sequence[RunRecord]) -> str:
    table = advice_table(records)
    heading = '<h2 id="advice-heading">Recommended λ</h2>'
    return f'<section aria-labelledby="advice-heading">{heading}{table}</section>' if table else ""


def _facts(records: Sequence[RunRecord], about: Mapping[str, str]) -> str:
    specs = [record.spec for record in records]
    relative_lams = {lam_number(spec.lam) for spec in specs if isinstance(spec.lam, relative)}
    lams = {
        spec.lam for spec in specs if not isinstance(spec.lam, relative) and not (relative_lams and is_main_alone(spec))
    }
    facts = {
        "Problem": specs[0].problem,
        "Scale": specs[0].scale,
        "Runs": f"{len(records)}",
        "Seeds": f"{len({spec.seed for spec in specs})}",
        "λ": _values(lams),
        "Relative λ": _values(relative_lams),
        "ρ": _values({spec.rho for spec in specs}),
        **about,
    }
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(fact)}</dd></div>" for name, fact in facts.items() if fact)


def _values(values: Iterable[float | None]) -> str:
    numbers = sorted(value for value in values if value is not None)
    if len(numbers) > 4:
        return f"{len(numbers)} values from {number(numbers[0])} to {number(numbers[-1])}"
    return ", ".join(map(number, numbers))


def _finding(groups: Sequence[Series], comparisons: Mapping[str, Comparison]) -> str:
    """The comparison on the first split in a sentence, or why there is no verdict."""
    if not any(group.has_losses(split) for group in groups for split in SPLITS):
        return ""
    if not comparisons:
        return '<p class="finding">No run ended with finite losses, so there is nothing to draw.</p>'
    split, comparison = next(iter(comparisons.items()))
    if comparison.no_verdict:
        return f'<p class="finding">No verdict on {split} losses: {escape(comparison.no_verdict)}.</p>'
    ranked = [result for result in comparison.results if result.hypervolume >= 0]  # without NaN
    first, second = sorted(ranked, key=lambda result: -result.hypervolume)[:2]
    spread = first.spread + second.spread
    caveat = ", within their spread over seeds" if first.hypervolume - second.hypervolume <= spread else ""
    if math.isnan(spread):
        caveat = " (a single seed: the spread is unknown)"
    return (
        f'<p class="finding">On {split} losses <strong>{escape(first.label)}</strong> has the largest hypervolume, '
        f"{first.hypervolume:.3f}; next is {escape(second.label)} with {second.hypervolume:.3f}{caveat}.</p>"
    )


def _warnings(sentences: Iterable[str]) -> str:
    return "".join(f'<p class="warning">{escape(sentence)}</p>' for sentence in sentences)


def _method_button(look: Look) -> str:
    label = escape(look.label)
    return f'<button type="button" aria-pressed="true" data-method="{label}">{swatch(look)}{label}</button>'


def _images(figures: Sequence[Path]) -> str:
    """The figures that the problem adds, embedded in the page."""
    images = [
        f'<img alt="{path.stem}" src="data:image/png;base64,{b64encode(path.read_bytes()).decode()}">'
        for path in figures
        if path.suffix == ".png" and path.stem not in STANDARD_FIGURES
    ]
    return f'<section aria-label="Figures">{"".join(images)}</section>' if images else ""


def _figure_links(figures: Sequence[Path]) -> str:
    links = ", ".join(f'<a href="figures/{path.name}">{path.name}</a>' for path in figures)
    return f'<p class="note">Figures for a paper: {links}.</p>' if links else ""
