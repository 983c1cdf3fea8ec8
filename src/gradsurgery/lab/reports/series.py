"""Runs that belong together: one method at one rho is one line in every figure and one row in every table."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gradsurgery.lab.reports.looks import Look, looks
from gradsurgery.lab.run import Metrics, RunRecord

Point: TypeAlias = tuple[float, float]
"""The main and the auxiliary loss of a model."""


def losses(row: Metrics, split: str) -> Point:
    """Main and aux of one row on ``train`` or ``test`` data; NaN where the problem has none."""
    return row.get(f"main_{split}", math.nan), row.get(f"aux_{split}", math.nan)


def final_point(record: RunRecord, split: str) -> Point | None:
    """Where a run ended; None if it has not, if it failed, or if a loss is no longer finite: it diverged."""
    if record.status != "done" or not record.metrics:
        return None
    point = losses(record.final, split)
    return point if all(map(math.isfinite, point)) else None


@dataclass(frozen=True)
class Level:
    """The runs of a series that share lam and differ in the seed."""

    lam: float | None
    points: tuple[Point, ...]
    """One for each run that ended with finite losses; at least one."""
    runs: int
    """How many there are, with those that did not."""

    @property
    def mean(self) -> Point:
        """The mean over the points."""
        main, aux = zip(*self.points, strict=True)
        return statistics.fmean(main), statistics.fmean(aux)

    def mixed(self, t: float) -> tuple[float, float]:
        """The mixed loss (1 - t) main + t aux: its mean over the points, and their standard deviation (0 for one)."""
        values = [(1 - t) * main + t * aux for main, aux in self.points]
        return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


@dataclass(frozen=True)
class Series:
    """All runs of a method at one rho, and how to draw them."""

    look: Look
    records: tuple[RunRecord, ...]

    @property
    def seeds(self) -> list[int]:
        """The seeds of its runs."""
        return sorted({record.spec.seed for record in self.records})

    def ended(self) -> "Series":
        """Without the runs that are still under way."""
        return Series(self.look, tuple(record for record in self.records if record.status != "running"))

    def measures(self, split: str) -> bool:
        """Whether any run recorded its losses on ``train`` or ``test`` data, finite or not."""
        return any(f"main_{split}" in row for record in self.records for row in record.metrics[-1:])

    def points(self, split: str, seed: int | None = None) -> list[Point]:
        """Where its runs ended, those that did; of one seed or of all."""
        ends = (final_point(record, split) for record in self.records if seed in (None, record.spec.seed))
        return [point for point in ends if point is not None]

    def levels(self, split: str) -> list[Level]:
        """Its runs by lam, from small to large, leaving out each lam at which no run ended well."""
        by_lam: dict[float | None, list[Point | None]] = {}
        for record in self.records:
            by_lam.setdefault(record.spec.lam, []).append(final_point(record, split))
        levels = []
        for lam in sorted(by_lam, key=lambda lam: -math.inf if lam is None else lam):
            points = tuple(point for point in by_lam[lam] if point is not None)
            if points:
                levels.append(Level(lam, points, runs=len(by_lam[lam])))
        return levels


def series(records: Iterable[RunRecord]) -> list[Series]:
    """The runs sorted into series, in the order of the paper's Table 1.

    Losses of different problems cannot be compared, so all runs are of one problem at one scale.
    """
    records = list(records)
    kinds = sorted({f"{record.spec.problem} at {record.spec.scale}" for record in records})
    if len(kinds) > 1:
        raise ValueError(f"methods are compared on one problem at one scale, but got runs of {' and '.join(kinds)}")
    return [
        Series(look, tuple(record for record in records if (record.spec.method, record.spec.rho) == variant))
        for variant, look in looks(record.spec for record in records).items()
    ]


def splits(groups: Sequence[Series]) -> list[str]:
    """Those of ``train`` and ``test`` for which any run has losses."""
    return [split for split in ("train", "test") if any(group.points(split) for group in groups)]
