"""Series: the runs of one variant of a method, with their final losses by seed and by λ."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias, TypeVar

from gradsurgery.lab.analysis.pareto import Point, front, mean_point
from gradsurgery.lab.analysis.variant import Variant, label_variants, variant_of
from gradsurgery.lab.lam import Lam, Tau, has_weight, is_relative, lam_names, lam_number
from gradsurgery.lab.run import Metrics, RunRecord, RunSpec

Values: TypeAlias = tuple[float, ...]
"""Metrics of a run."""
V = TypeVar("V", bound=Values)
SPLITS = ("train", "test")
"""The data that losses are measured on."""


def loss_point(row: Metrics, split: str) -> Point:
    """The main and the auxiliary loss in a row of metrics; NaN where the row has none."""
    return row.get(f"main_{split}", math.nan), row.get(f"aux_{split}", math.nan)


def last_losses(record: RunRecord, split: str) -> Values | None:
    """The losses in the last row that has both, finite or not; None if no row has."""
    return _last_values(record, f"main_{split}", f"aux_{split}")


def final_point(record: RunRecord, split: str) -> Point | None:
    """The losses at the end of a run; None if the run did not finish or its final losses are not finite."""
    values = final_values(record, f"main_{split}", f"aux_{split}")
    return (values[0], values[1]) if values else None


def final_points(records: Iterable[RunRecord], split: str) -> list[Point]:
    """The finite final losses of runs."""
    return [point for record in records if (point := final_point(record, split)) is not None]


def final_values(record: RunRecord, *metrics: str) -> Values | None:
    """Metrics at the end of a run; None if the run did not finish or they are not finite."""
    values = _last_values(record, *metrics) if record.status == "done" else None
    return values if values is not None and all(map(math.isfinite, values)) else None


def _last_values(record: RunRecord, *metrics: str) -> Values | None:
    complete = (row for row in reversed(record.metrics) if all(name in row for name in metrics))
    return next((tuple(row[name] for name in metrics) for row in complete), None)


@dataclass(frozen=True)
class SeedGroup:
    """The runs of a series that share λ and differ in the seed."""

    spec: RunSpec
    """Of the first of its runs."""
    points: tuple[Point, ...]
    """Final losses of the runs that have finite ones; never empty."""
    runs: int
    """The number of runs, including those without finite final losses."""

    @property
    def lam(self) -> Lam | None:
        """The λ that they share."""
        return self.spec.lam

    @property
    def number(self) -> float | None:
        """The number in λ; None for a method without λ."""
        return None if self.lam is None else lam_number(self.lam)

    @property
    def mean(self) -> Point:
        """The mean of the final losses."""
        return mean_point(self.points)

    @property
    def deviation(self) -> Point:
        """The standard deviation over seeds of each loss; 0 for a single run."""
        main, aux = zip(*self.points, strict=True)
        return _deviation(main), _deviation(aux)

    def mixed_loss(self, t: float) -> tuple[float, float]:
        """Mean and standard deviation over seeds of (1 - t) main + t aux."""
        values = [(1 - t) * main + t * aux for main, aux in self.points]
        return statistics.fmean(values), _deviation(values)


def group_seeds(records: Sequence[RunRecord], split: str) -> SeedGroup | None:
    """Runs that differ in the seed only; None if no run has finite final losses."""
    points = final_points(records, split)
    return SeedGroup(records[0].spec, tuple(points), len(records)) if points else None


@dataclass(frozen=True)
class Series:
    """All runs of one variant."""

    variant: Variant
    label: str
    records: tuple[RunRecord, ...]

    @property
    def seeds(self) -> list[int]:
        """The seeds of its runs, sorted."""
        return sorted({record.spec.seed for record in self.records})

    def has_losses(self, split: str) -> bool:
        """True if any run recorded its losses on this split, finite or not."""
        return any(last_losses(record, split) for record in self.records)

    def final_points(self, split: str) -> list[Point]:
        """The finite final losses of its runs."""
        return final_points(self.records, split)

    def by_lam(self, split: str) -> list[SeedGroup]:
        """Its runs grouped by λ, in increasing order, without each λ at which no run has finite final losses."""
        by_lam: dict[Lam | None, list[RunRecord]] = {}
        for record in self.records:
            by_lam.setdefault(record.spec.lam, []).append(record)
        order = sorted(by_lam, key=lambda lam: -math.inf if lam is None else lam_number(lam))
        return [seeds for lam in order if (seeds := group_seeds(by_lam[lam], split))]

    def trajectories(self, split: str) -> list[list[Point]]:
        """For each λ the losses during training, as means over the finished runs; none of runs with a single row."""
        by_lam: dict[Lam | None, dict[float, list[Point]]] = {}
        for record in self.records:
            for row in record.metrics if record.status == "done" else ():
                by_step = by_lam.setdefault(record.spec.lam, {})
                by_step.setdefault(row.get("step", math.nan), []).append(loss_point(row, split))
        means = [
            [mean_point(points) for points in by_step.values() if all(map(math.isfinite, chain(*points)))]
            for by_step in by_lam.values()
        ]
        return [trajectory for trajectory in means if len(trajectory) > 1]

    def split_front(self, split: str) -> tuple[list[SeedGroup], list[SeedGroup]]:
        """The λ whose mean losses no other λ dominates, by increasing main; and the others."""
        groups = self.by_lam(split)
        best = front(seeds.mean for seeds in groups)
        on_front = sorted((seeds for seeds in groups if seeds.mean in best), key=lambda seeds: seeds.mean)
        return on_front, [seeds for seeds in groups if seeds.mean not in best]


def group_runs(records: Iterable[RunRecord]) -> list[Series]:
    """The runs as series, in the order of the paper's Table 1.

    Main alone (mixed with λ = 0) is trained once for all methods. It is left out of mixed's front, where it would be a
    point that the others lack, unless all methods with a λ were trained with λ = 0. Beside mixed with relative λ it is
    left out, too: it would be a separate series.

    Raises:
        ValueError: if the runs belong to several problems or scales, whose losses cannot be compared.
    """
    records = list(records)
    check_origin(records)
    mixed = [record.spec for record in records if record.spec.method == "mixed" and has_weight(record.spec.lam)]
    if mixed and _is_shared(records):
        records = [record for record in records if not is_main_alone(record.spec)]
    elif mixed and all(is_relative(spec.lam) for spec in mixed):
        records = [record for record in records if is_relative(record.spec.lam) or not is_main_alone(record.spec)]
    return [
        Series(variant, label, tuple(record for record in records if variant_of(record.spec) == variant))
        for variant, label in label_variants(variant_of(record.spec) for record in records).items()
    ]


def check_origin(records: Iterable[RunRecord]) -> None:
    """Raise ``ValueError`` if the runs belong to several problems or scales, whose losses cannot be compared."""
    origins = sorted({f"{record.spec.problem} at {record.spec.scale}" for record in records})
    if len(origins) > 1:
        raise ValueError(f"runs must be of one problem at one scale; got runs of {' and '.join(origins)}")


def is_main_alone(spec: RunSpec) -> bool:
    """True for a run that trains on the main loss only."""
    return spec.method == "mixed" and spec.lam is not None and not has_weight(spec.lam)


def main_alone(records: Iterable[RunRecord], split: str) -> dict[int, Point]:
    """The final losses of training on main alone, by seed; with the best settings if there are several."""
    ends: dict[Variant, dict[int, Point]] = {}
    for record in records:
        if is_main_alone(record.spec) and (end := final_point(record, split)) is not None:
            ends.setdefault(variant_of(record.spec), {})[record.spec.seed] = end
    return best_alone(ends.values())


def group_alone(records: Sequence[RunRecord], split: str) -> SeedGroup | None:
    """The runs of main alone, with the final losses of ``main_alone``; None if there are none."""
    specs = [record.spec for record in records if is_main_alone(record.spec)]
    points = tuple(main_alone(records, split).values())
    return SeedGroup(specs[0], points, len(specs)) if points else None


def best_alone(candidates: Iterable[dict[int, V]], sign: int = 1) -> dict[int, V]:
    """Of the runs of main alone with each settings, those with the most seeds and then the lowest mean of main.

    Args:
        candidates: final values by seed.
        sign: −1 if more is better.
    """
    return min(
        filter(None, candidates),
        key=lambda ends: (-len(ends), sign * statistics.fmean(values[0] for values in ends.values())),
        default={},
    )


def _is_shared(records: Sequence[RunRecord]) -> bool:
    """True if main alone stands for the λ = 0 of every method."""
    specs = [record.spec for record in records if not isinstance(record.spec.lam, Tau | None)]
    return {spec.method for spec in specs if not has_weight(spec.lam)} != {spec.method for spec in specs}


def lam_axis(groups: Iterable[Series]) -> str:
    """The name of λ above 0 on an axis or in a heading: ``λ``, ``relative λ``, ``τ`` or ``λ or τ``."""
    lams = (record.spec.lam for group in groups for record in group.records)
    return lam_names(lam for lam in lams if has_weight(lam))


def splits_with_points(groups: Sequence[Series]) -> list[str]:
    """The splits for which at least one run has finite final losses."""
    return [split for split in SPLITS if any(group.final_points(split) for group in groups)]


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0
