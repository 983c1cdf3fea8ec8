"""The tables of a report, as HTML: hypervolumes, other metrics, and samples of model output."""

import math
import statistics
from collections.abc import Mapping, Sequence
from html import escape

from gradsurgery.lab.lam import Lam, lam_number
from gradsurgery.lab.reports.comparison import Comparison, MethodResult
from gradsurgery.lab.reports.looks import Look, number
from gradsurgery.lab.reports.series import Series, lam_name
from gradsurgery.lab.run import RunRecord, Sample

_SHOWN_ELSEWHERE = ("step", "main_", "aux_", "surgery/")


def comparison_table(comparisons: Mapping[str, Comparison], groups: Sequence[Series]) -> str:
    """Hypervolume and share of dominated points: a row for each method, a column for each split."""
    by_split = [{result.label: result for result in comparison.results} for comparison in comparisons.values()]
    best = [
        max((result.hypervolume for result in results.values() if math.isfinite(result.hypervolume)), default=math.nan)
        for results in by_split
    ]
    rows = []
    for look in (group.look for group in groups):
        row_results = [results.get(look.label) for results in by_split]
        if first := next(filter(None, row_results), None):
            cells = [_hypervolume_cell(result, look, top) for result, top in zip(row_results, best, strict=True)]
            cells += [_dominated_cell(result) for result in row_results]
            rows.append(f"<tr>{_method_cell(look, first)}{''.join(cells)}</tr>")
    headings = "".join(
        f'<th scope="colgroup" colspan="{len(comparisons)}">{name}</th>' for name in ("Hypervolume", "Dominated")
    )
    splits = "".join(f'<th scope="col">{split}</th>' for split in (*comparisons, *comparisons))
    head = f'<tr><th scope="col" rowspan="2">Method</th>{headings}</tr><tr>{splits}</tr>'
    return f'<table class="comparison"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'


def _method_cell(look: Look, result: MethodResult) -> str:
    total = f"{result.runs} run{'s' * (result.runs > 1)}"
    count = f"{result.runs - result.without_result} of {total}" if result.without_result else total
    label = escape(look.label).replace("_", "_<wbr>")
    return f'<th scope="row">{swatch(look)}{label}<small>{count}</small></th>'


def _hypervolume_cell(result: MethodResult | None, look: Look, best: float) -> str:
    if result is None or math.isnan(result.hypervolume):
        return "<td>–</td>"
    volume = f"{result.hypervolume:.3f}"
    mean = f"<strong>{volume}</strong>" if result.hypervolume == best else volume
    spread = "" if math.isnan(result.spread) else f' <span class="spread">± {result.spread:.3f}</span>'
    bar = f'<span class="bar"><i style="width:{result.hypervolume:.1%};background:{look.colour}"></i></span>'
    return f"<td>{mean}{spread}{bar}</td>"


def _dominated_cell(result: MethodResult | None) -> str:
    return "<td>–</td>" if result is None or math.isnan(result.dominated) else f"<td>{result.dominated:.0%}</td>"


def metrics_table(groups: Sequence[Series]) -> str:
    """Final metrics other than the losses, such as accuracy or BLEU, as means over seeds; empty if there are none."""
    by_lam: dict[tuple[Look, Lam | None], list[RunRecord]] = {}
    for group in groups:
        for record in group.records:
            if record.status == "done" and record.metrics:
                by_lam.setdefault((group.look, record.spec.lam), []).append(record)
    finished = [record for records in by_lam.values() for record in records]
    names = list(dict.fromkeys(name for record in finished for name in record.final if _is_other_metric(name)))
    if not names:
        return ""
    head = "".join(f'<th scope="col">{escape(name.replace("_", " "))}</th>' for name in names)
    rows = [
        f"<tr>{_run_cells(look, lam)}{''.join(f'<td>{_mean(records, name)}</td>' for name in names)}</tr>"
        for (look, lam), records in by_lam.items()
    ]
    head = f'<thead><tr><th scope="col">Method</th><th scope="col">{lam_name(groups)}</th>{head}</tr></thead>'
    return _collapsed_table("Other metrics", head, rows)


def _is_other_metric(name: str) -> bool:
    return not name.startswith(_SHOWN_ELSEWHERE)


def _mean(records: Sequence[RunRecord], name: str) -> str:
    values = [record.final.get(name, math.nan) for record in records]
    return number(statistics.fmean(values)) if all(map(math.isfinite, values)) else "–"


def samples_section(groups: Sequence[Series]) -> str:
    """Model outputs by input: one row for each method and λ, from its first seed; empty if no run has samples."""
    outputs: dict[tuple[str, str], dict[tuple[Look, Lam | None], str]] = {}
    unreadable = 0
    for look, record in ((group.look, record) for group in groups for record in group.records):
        samples = _read_samples(record)
        unreadable += samples is None
        for sample in samples or ():
            runs = outputs.setdefault((sample.source, sample.reference), {})
            runs.setdefault((look, record.spec.lam), sample.output)
    tables = [
        _collapsed_table(
            source,
            f'<thead><tr><th colspan="2" scope="row">Reference</th><td>{escape(reference)}</td></tr></thead>',
            [f"<tr>{_run_cells(look, lam)}<td>{escape(output)}</td></tr>" for (look, lam), output in runs.items()],
        )
        for (source, reference), runs in outputs.items()
    ]
    if unreadable:
        count = f"{unreadable} run{'s' * (unreadable > 1)}"
        tables.append(f'<p class="warning">The stored samples of {count} could not be read.</p>')
    if not tables:
        return ""
    heading = '<h2 id="samples-heading">Samples</h2>'
    return f'<section aria-labelledby="samples-heading">{heading}{"".join(tables)}</section>'


def _read_samples(record: RunRecord) -> list[Sample] | None:
    """The samples of a run; None if the stored JSON does not have their shape."""
    try:
        return record.samples
    except (ValueError, RecursionError):
        return None


def _run_cells(look: Look, lam: Lam | None) -> str:
    weight = "" if lam is None else number(lam_number(lam))
    return f'<th scope="row">{swatch(look)} {escape(look.label)}</th><td>{weight}</td>'


def _collapsed_table(title: str, head: str, rows: Sequence[str]) -> str:
    return f"<details><summary>{escape(title)}</summary><table>{head}<tbody>{''.join(rows)}</tbody></table></details>"


def swatch(look: Look) -> str:
    """The marker of a method, as large as a letter."""
    fill = f'fill="none" stroke="{look.colour}" stroke-width="1.6"' if look.hollow else f'fill="{look.colour}"'
    return f'<svg class="swatch" viewBox="-6 -6 12 12" aria-hidden="true"><path d="{look.svg_path}" {fill}/></svg>'
