"""What a report shows besides the losses: accuracies, BLEU and the like, and what the models wrote."""

import math
import statistics
from collections.abc import Sequence
from html import escape

from gradsurgery.lab.reports.looks import Look, number
from gradsurgery.lab.reports.series import Series
from gradsurgery.lab.reports.tables import swatch
from gradsurgery.lab.run import RunRecord

_SHOWN_ELSEWHERE = ("step", "main_", "aux_", "surgery/")


def html_measures(groups: Sequence[Series]) -> str:
    """A table of all else that runs measured at their end, means over the seeds; nothing if there is nothing else."""
    ended = [(group.look, record) for group in groups for record in group.records if record.status == "done"]
    names = list(dict.fromkeys(name for _, record in ended for name in record.final if _is_other(name)))
    together: dict[tuple[Look, float | None], list[RunRecord]] = {}
    for look, record in ended:
        together.setdefault((look, record.spec.lam), []).append(record)
    if not names:
        return ""
    head = "".join(f'<th scope="col">{escape(name.replace("_", " "))}</th>' for name in names)
    rows = [
        f"<tr>{_run(look, lam)}{''.join(f'<td>{_mean(records, name)}</td>' for name in names)}</tr>"
        for (look, lam), records in together.items()
    ]
    return _folded(
        "What else was measured",
        f'<thead><tr><th scope="col">Method</th><th scope="col">λ</th>{head}</tr></thead>',
        rows,
    )


def html_samples(groups: Sequence[Series]) -> str:
    """For each sample what every run made of it, the first seed of each; nothing if no run has any."""
    outputs: dict[tuple[str, str], dict[tuple[Look, float | None], str]] = {}
    for look, record in ((group.look, record) for group in groups for record in group.records):
        for sample in record.samples:
            runs = outputs.setdefault((sample.source, sample.reference), {})
            runs.setdefault((look, record.spec.lam), sample.output)
    found = [
        _folded(
            source,
            f'<thead><tr><th colspan="2" scope="row">Reference</th><td>{escape(reference)}</td></tr></thead>',
            [f"<tr>{_run(look, lam)}<td>{escape(output)}</td></tr>" for (look, lam), output in runs.items()],
        )
        for (source, reference), runs in outputs.items()
    ]
    if not found:
        return ""
    return f'<section aria-labelledby="samples-heading"><h2 id="samples-heading">Samples</h2>{"".join(found)}</section>'


def _is_other(name: str) -> bool:
    return not name.startswith(_SHOWN_ELSEWHERE)


def _mean(records: Sequence[RunRecord], name: str) -> str:
    values = [record.final.get(name, math.nan) for record in records]
    return number(statistics.fmean(values)) if all(map(math.isfinite, values)) else "–"


def _run(look: Look, lam: float | None) -> str:
    return f'<th scope="row">{swatch(look)} {escape(look.label)}</th><td>{"" if lam is None else number(lam)}</td>'


def _folded(title: str, head: str, rows: Sequence[str]) -> str:
    return f"<details><summary>{escape(title)}</summary><table>{head}<tbody>{''.join(rows)}</tbody></table></details>"
