"""How the methods of a sweep compare: the hypervolume of each front, or the reason why fronts cannot be compared."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gradsurgery.lab.reports.looks import number
from gradsurgery.lab.reports.pareto import dominated_share
from gradsurgery.lab.reports.region import Region, shared_region
from gradsurgery.lab.reports.series import Series, group_runs
from gradsurgery.lab.run import RunRecord

_MIN_POINTS = 3


@dataclass(frozen=True)
class MethodResult:
    """How the fronts of one method compare with those of the others."""

    label: str
    hypervolume: float
    """Mean over seeds of the share of the shared region that the runs of one seed dominate; NaN without a verdict."""
    spread: float
    """Standard deviation of the hypervolume over seeds; NaN for a single seed."""
    dominated: float
    """Share of its points that a point of another method dominates at the same seed; NaN without such rivals."""
    runs: int
    """Finished runs, with and without a result."""
    without_result: int
    """Runs that failed or diverged. They add no points; a seed without points has hypervolume 0."""


@dataclass(frozen=True)
class Comparison:
    """The results of all methods on train or on test data."""

    results: tuple[MethodResult, ...]
    """In the order of the paper's Table 1; empty if the problem does not measure these losses."""
    no_verdict: str = ""
    """Why no hypervolumes are given; empty if they are."""


def compare(records: Iterable[RunRecord], split: str = "train") -> Comparison:
    """Compare the methods on the runs of one problem.

    Fronts are taken seed by seed, so that a lucky seed does not make a method look better. Unfinished runs are left
    out. A method with fewer than three final points per seed has no hypervolume: so few points are not a front.
    """
    groups = [group for group in map(Series.without_unfinished, group_runs(records)) if group.has_losses(split)]
    with_fronts = [group for group in groups if len(group.final_points(split)) >= _MIN_POINTS * len(group.seeds)]
    no_verdict = _reason_without_fronts(groups, with_fronts, split)
    region = None
    if with_fronts and not no_verdict:
        region = shared_region(groups, with_fronts, split)
        no_verdict = _reason_degenerate(region)
    results = []
    for group in groups:
        rivals = [rival for rival in groups if rival is not group]
        results.append(_result(group, rivals, split, region if group in with_fronts and not no_verdict else None))
    if region and not no_verdict:
        no_verdict = _reason_disjoint(region, results)
    if no_verdict:
        results = [replace(result, hypervolume=math.nan, spread=math.nan) for result in results]
    return Comparison(tuple(results), no_verdict)


def _reason_without_fronts(groups: Sequence[Series], with_fronts: Sequence[Series], split: str) -> str:
    if not groups:
        return ""
    if not any(group.final_points(split) for group in groups):
        return "no run ended with finite losses"
    if len(groups) == 1:
        is_single = len(groups[0].records) == 1
        return "there is only one run" if is_single else f"{groups[0].look.label} is the only method"
    if len(with_fronts) < 2:
        return f"fewer than two methods have {_MIN_POINTS} final points per seed, the fewest that make a front"
    return ""


def _reason_degenerate(region: Region) -> str:
    for name, losses in (("main", region.main), ("auxiliary", region.aux)):
        if losses.is_degenerate:
            return f"the {name} loss does not vary where the methods overlap"
    return ""


def _reason_disjoint(region: Region, results: Sequence[MethodResult]) -> str:
    """A hypervolume of 0 is a verdict only for a method that is dominated everywhere, not for one that is elsewhere."""
    for result in results:
        if result.hypervolume == 0 and result.dominated != 1:
            reached = f"main {number(region.main.worst)}, aux {number(region.aux.worst)}"
            no_point = f"{result.label} has no point within the losses that every method reaches ({reached})"
            return f"the fronts do not overlap: {no_point}"
    return ""


def _result(group: Series, rivals: Sequence[Series], split: str, region: Region | None) -> MethodResult:
    volumes, shares = [], []
    for seed in group.seeds:
        points = group.final_points(split, seed)
        rival_points = [point for rival in rivals for point in rival.final_points(split, seed)]
        volumes.append(region.hypervolume(points) if region else math.nan)
        if points and rival_points:
            shares.append(dominated_share(points, rival_points))
    return MethodResult(
        label=group.look.label,
        hypervolume=statistics.fmean(volumes),
        spread=statistics.stdev(volumes) if region and len(volumes) > 1 else math.nan,
        dominated=statistics.fmean(shares) if shares else math.nan,
        runs=len(group.records),
        without_result=len(group.records) - len(group.final_points(split)),
    )
