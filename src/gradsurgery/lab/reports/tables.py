"""The table of a report: how good each method's front is, on train and on test data."""

import math
from collections.abc import Sequence
from html import escape

from gradsurgery.lab.reports import pareto
from gradsurgery.lab.reports.looks import Look
from gradsurgery.lab.reports.series import Series
from gradsurgery.lab.run import RunRecord


def html_table(records: Sequence[RunRecord], groups: Sequence[Series], shown: Sequence[str]) -> str:
    """A row for each method: hypervolume and share of dominated points, for each split shown."""
    tables = [{row.label: row for row in pareto.summary(records, split)} for split in shown]
    best = [max(row.hypervolume for row in table.values()) for table in tables]
    body = []
    for look in (group.look for group in groups if any(group.look.label in table for table in tables)):
        rows = [table.get(look.label) for table in tables]
        cells = [
            _volume(row, look, row is not None and row.hypervolume == top) for row, top in zip(rows, best, strict=True)
        ]
        cells += [
            "<td>–</td>" if row is None or math.isnan(row.dominated) else f"<td>{row.dominated:.0%}</td>"
            for row in rows
        ]
        body.append(f"<tr>{_method(look, next(filter(None, rows)))}{''.join(cells)}</tr>")
    wide = "".join(f'<th scope="colgroup" colspan="{len(shown)}">{name}</th>' for name in ("Hypervolume", "Dominated"))
    narrow = "".join(f'<th scope="col">{split}</th>' for split in (*shown, *shown))
    head = f'<tr><th scope="col" rowspan="2">Method</th>{wide}</tr><tr>{narrow}</tr>'
    return f'<table class="compared"><thead>{head}</thead><tbody>{"".join(body)}</tbody></table>'


def _method(look: Look, row: pareto.Summary) -> str:
    count = f"{row.runs - row.failed} of {row.runs} runs" if row.failed else f"{row.runs} run{'s' * (row.runs > 1)}"
    label = escape(look.label).replace("_", "_<wbr>")
    return f'<th scope="row">{swatch(look)}{label}<small>{count}</small></th>'


def _volume(row: pareto.Summary | None, look: Look, best: bool) -> str:
    if row is None:
        return "<td>–</td>"
    mean = f"<strong>{row.hypervolume:.3f}</strong>" if best else f"{row.hypervolume:.3f}"
    spread = "" if math.isnan(row.spread) else f' <span class="spread">± {row.spread:.3f}</span>'
    bar = f'<span class="bar"><i style="width:{row.hypervolume:.1%};background:{look.colour}"></i></span>'
    return f"<td>{mean}{spread}{bar}</td>"


def swatch(look: Look) -> str:
    """A method's marker, as large as a letter."""
    fill = f'fill="none" stroke="{look.colour}" stroke-width="1.6"' if look.hollow else f'fill="{look.colour}"'
    return f'<svg class="swatch" viewBox="-6 -6 12 12" aria-hidden="true"><path d="{look.path}" {fill}/></svg>'
