"""Two fronts compared where both have points, paired by seed.

The seeds are those in which both methods have a front of at least two points. The *common region* is the rectangle of
the losses that both methods reach in these seeds: it ends, in each loss, where the front of either method does. Two
numbers per seed compare the methods there:

    hypervolume lead  = share of the common region that the front dominates - the same share for the rival
    main at equal aux = exp(mean over values of aux of log main - log main of the rival) - 1

Both depend on the two methods only, so a third one on the same page changes neither.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradsurgery.lab.analysis.interval import Estimate, growth
from gradsurgery.lab.analysis.pareto import LossRange, Point, Region, are_dominated, front
from gradsurgery.lab.analysis.series import final_points, group_runs
from gradsurgery.lab.run import RunRecord

Fronts: TypeAlias = Mapping[int, Sequence[Point]]
"""The front of one method, by seed."""
LEVELS = 9
"""How many values of aux main is compared at."""
MIN_POINTS = 2
"""Fewer points are not a front."""
_NOTHING = Estimate()


@dataclass(frozen=True)
class FrontComparison:
    """How the front of a method compares with that of a rival."""

    lead: Estimate = _NOTHING
    """The hypervolume of the method minus that of the rival, as shares of the common region."""
    main_at_equal_aux: Estimate = _NOTHING
    """Main's loss above the rival's at the same aux: −0.1 is 10 % lower. Empty if a main loss is not positive."""
    reason: str = ""
    """Why the fronts cannot be compared; empty if they can."""


@dataclass(frozen=True)
class MethodComparison:
    """A method of a sweep beside the rival of the others."""

    label: str
    runs: int
    """Finished runs, with and without a result."""
    with_result: int
    """Runs that neither failed nor diverged."""
    fronts: FrontComparison | None
    """None for the rival itself."""

    @property
    def texts(self) -> tuple[str, str]:
        """The hypervolume lead, or why there is none; and main at equal aux. Empty for the rival itself."""
        if self.fronts is None:
            return "", ""
        lead = self.fronts.reason or self.fronts.lead.describe()
        return lead, self.fronts.main_at_equal_aux.describe(percent=True)


@dataclass(frozen=True)
class Comparison:
    """The methods of a sweep, each compared with the same rival, on training or on held-out data."""

    rival: str = ""
    methods: tuple[MethodComparison, ...] = ()
    """In the order of the paper's Table 1; empty if no run has these losses."""


def fronts_of(records: Iterable[RunRecord], split: str) -> dict[int, list[Point]]:
    """The front of the runs of one method for each seed in which it has at least two points."""
    by_seed: dict[int, list[RunRecord]] = {}
    for record in records:
        by_seed.setdefault(record.spec.seed, []).append(record)
    fronts = {seed: front(final_points(by_seed[seed], split)) for seed in sorted(by_seed)}
    return {seed: points for seed, points in fronts.items() if len(points) >= MIN_POINTS}


def compare_fronts(first: Fronts, second: Fronts) -> FrontComparison:
    """Compare the fronts of a method with those of a rival, on the seeds of both."""
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        return FrontComparison(reason=f"no seed has {MIN_POINTS} points on both fronts")
    pairs = {seed: (first[seed], second[seed]) for seed in seeds}
    equal_aux = {seed: value for seed, pair in pairs.items() if (value := _main_at_equal_aux(*pair)) is not None}
    region = _common_region(*zip(*pairs.values(), strict=True))
    if region is None:
        return FrontComparison(main_at_equal_aux=Estimate(equal_aux), reason=_describe_gap(pairs))
    lead = {seed: region.hypervolume(points) - region.hypervolume(rivals) for seed, (points, rivals) in pairs.items()}
    return FrontComparison(Estimate(lead), Estimate(equal_aux))


def compare_methods(records: Iterable[RunRecord], split: str) -> Comparison:
    """Compare the front of each method with that of mixed, or of the first method if there is no mixed.

    Unfinished runs are left out. Runs that failed or diverged add no points.
    """
    finished = [record for record in records if record.status != "running"]
    groups = [group for group in group_runs(finished) if group.has_losses(split)]
    if not groups:
        return Comparison()
    rival = next((group for group in groups if group.variant.method == "mixed"), groups[0])
    fronts = {group.label: fronts_of(group.records, split) for group in groups}
    return Comparison(
        rival.label,
        tuple(
            MethodComparison(
                group.label,
                runs=len(group.records),
                with_result=len(group.final_points(split)),
                fronts=None if group is rival else compare_fronts(fronts[group.label], fronts[rival.label]),
            )
            for group in groups
        ),
    )


def _common_region(*fronts_by_method: Iterable[Sequence[Point]]) -> Region | None:
    """The rectangle of the losses that both methods reach; None if their fronts do not overlap."""
    ranges = []
    by_method = [[point for points in fronts for point in points] for fronts in fronts_by_method]
    for loss in (0, 1):
        losses = [[point[loss] for point in points] for points in by_method]
        ranges.append(LossRange.between(max(map(min, losses)), min(map(max, losses))))
    region = Region(*ranges)
    return None if region.main.is_degenerate or region.aux.is_degenerate else region


def _describe_gap(pairs: Mapping[int, tuple[Sequence[Point], Sequence[Point]]]) -> str:
    """Where two fronts without a common region are."""
    if all(are_dominated(rivals, points) for points, rivals in pairs.values()):
        return "dominates it everywhere"
    if all(are_dominated(points, rivals) for points, rivals in pairs.values()):
        return "dominated everywhere"
    return "the fronts do not overlap"


def _main_at_equal_aux(points: Sequence[Point], rivals: Sequence[Point]) -> float | None:
    """Fronts are joined by straight lines in aux and log main, and compared at evenly spaced values of aux."""
    if min(main for main, _ in (*points, *rivals)) <= 0:
        return None
    aux_losses = [[aux for _, aux in front] for front in (points, rivals)]
    low, high = max(map(min, aux_losses)), min(map(max, aux_losses))
    if low >= high:
        return None
    levels = np.linspace(low, high, LEVELS)
    return growth(float(np.mean(_log_main(points, levels) - _log_main(rivals, levels))))


def _log_main(points: Sequence[Point], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    main, aux = zip(*sorted(points, key=lambda point: point[1]), strict=True)
    return np.interp(levels, aux, np.log(main))
