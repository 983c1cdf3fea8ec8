"""The tables of a report, as rows for its templates: fronts, other metrics, and samples of model output."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gradsurgery.lab.analysis.compare import Comparison, MethodComparison
from gradsurgery.lab.analysis.series import Series
from gradsurgery.lab.lam import Lam, lam_number
from gradsurgery.lab.objective import LOSSES
from gradsurgery.lab.reports.page import keep_together
from gradsurgery.lab.reports.style import Look
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.text import count, hyperparameters, number

_SHOWN_ELSEWHERE = {"step", *LOSSES}


@dataclass(frozen=True)
class ComparisonRow:
    """A method beside the rival: what its front is ahead by, on each split."""

    look: Look
    runs: str
    leads: list[str]
    """The hypervolume lead, or why there is none; one for each split."""
    mains: list[str]
    """Main at equal aux; one for each split."""


@dataclass(frozen=True)
class RunRow:
    """A row about the runs of a method at one λ."""

    look: Look
    lam: str
    cells: list[str]


@dataclass(frozen=True)
class SampleTable:
    """What each method and λ makes of one input."""

    source: str
    reference: str
    rows: list[RunRow] = field(default_factory=list)


def comparison_rows(comparisons: Mapping[str, Comparison], looks: Mapping[str, Look]) -> list[ComparisonRow]:
    """A row for each method, in the order of the looks; splits in the order of the comparisons."""
    by_split = [{method.label: method for method in comparison.methods} for comparison in comparisons.values()]
    rows = []
    for label, look in looks.items():
        methods = [results.get(label) for results in by_split]
        if first := next(filter(None, methods), None):
            leads, mains = zip(*(method.texts if method else ("", "") for method in methods), strict=True)
            rows.append(ComparisonRow(look, _count(first), list(leads), list(mains)))
    return rows


def _count(method: MethodComparison) -> str:
    total = count(method.runs, "run")
    return total if method.with_result == method.runs else f"{method.with_result} of {total}"


@dataclass(frozen=True)
class FailureRow:
    """Runs of one method and λ that failed for the same reason."""

    run: str
    seeds: str
    reason: str


def failure_rows(records: Sequence[RunRecord]) -> list[FailureRow]:
    """The failed runs, one row for all seeds that failed alike."""
    seeds: dict[tuple[str, str], list[int]] = {}
    for record in records:
        if record.status == "failed":
            run = keep_together(", ".join([record.spec.method, *hyperparameters(record.spec.lam, record.spec.rho)]))
            reason = str(record.info.get("reason", "no reason was recorded")).strip()
            seeds.setdefault((run, reason), []).append(record.spec.seed)
    return [FailureRow(run, ", ".join(map(str, sorted(of))), reason) for (run, reason), of in seeds.items()]


def metric_names(groups: Sequence[Series]) -> list[str]:
    """The metrics other than the losses, such as accuracy or BLEU."""
    finished = [record for group in groups for record in group.records if record.status == "done"]
    names = dict.fromkeys(name for record in finished for name in record.final)
    return [name for name in names if name not in _SHOWN_ELSEWHERE and not name.startswith("surgery/")]


def metric_rows(groups: Sequence[Series], looks: Mapping[str, Look]) -> list[RunRow]:
    """Final metrics other than the losses as means over seeds: a row for each method and λ."""
    by_lam: dict[tuple[str, Lam | None], list[RunRecord]] = {}
    for group in groups:
        for record in group.records:
            if record.status == "done" and record.metrics:
                by_lam.setdefault((group.label, record.spec.lam), []).append(record)
    names = metric_names(groups)
    return [
        RunRow(looks[label], _write_lam(lam), [_mean(records, name) for name in names])
        for (label, lam), records in by_lam.items()
    ]


def _mean(records: Sequence[RunRecord], name: str) -> str:
    values = [record.final.get(name, math.nan) for record in records]
    return number(statistics.fmean(values)) if all(map(math.isfinite, values)) else "–"


def sample_tables(groups: Sequence[Series], looks: Mapping[str, Look]) -> list[SampleTable]:
    """Model outputs by input: a row for each method and λ, from its first seed."""
    tables: dict[tuple[str, str], SampleTable] = {}
    shown: set[tuple[str, str, str, Lam | None]] = set()
    for label, record in ((group.label, record) for group in groups for record in group.records):
        for sample in record.samples:
            table = tables.setdefault((sample.source, sample.reference), SampleTable(sample.source, sample.reference))
            row = sample.source, sample.reference, label, record.spec.lam
            if row not in shown:
                shown.add(row)
                table.rows.append(RunRow(looks[label], _write_lam(record.spec.lam), [sample.output]))
    return list(tables.values())


def _write_lam(lam: Lam | None) -> str:
    return "" if lam is None else number(lam_number(lam))
