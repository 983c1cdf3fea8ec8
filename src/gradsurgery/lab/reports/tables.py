"""The tables of a report, as rows for its templates: fronts, other metrics, and samples of model output."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradsurgery.lab.analysis.compare import Comparison, MethodComparison
from gradsurgery.lab.analysis.series import Series
from gradsurgery.lab.lam import Lam, lam_number
from gradsurgery.lab.objective import LOSSES
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


def failed_seeds(records: Sequence[RunRecord]) -> dict[tuple[str, str], list[int]]:
    """Method, λ and ρ, and the reason -> the seeds of the runs that failed so."""
    seeds: dict[tuple[str, str], list[int]] = {}
    for record in records:
        if record.status == "failed":
            run = ", ".join([record.spec.method, *hyperparameters(record.spec.lam, record.spec.rho)])
            reason = str(record.info.get("reason", "no reason was recorded")).strip()
            seeds.setdefault((run, reason), []).append(record.spec.seed)
    return seeds


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


def sample_rows(groups: Sequence[Series], looks: Mapping[str, Look]) -> dict[tuple[str, str], list[RunRow]]:
    """Source and reference -> the output of each method and λ, from its first seed."""
    tables: dict[tuple[str, str], dict[tuple[str, Lam | None], RunRow]] = {}
    for label, record in ((group.label, record) for group in groups for record in group.records):
        for sample in record.samples:
            row = RunRow(looks[label], _write_lam(record.spec.lam), [sample.output])
            tables.setdefault((sample.source, sample.reference), {}).setdefault((label, record.spec.lam), row)
    return {texts: list(rows.values()) for texts, rows in tables.items()}


def _write_lam(lam: Lam | None) -> str:
    return "" if lam is None else number(lam_number(lam))
