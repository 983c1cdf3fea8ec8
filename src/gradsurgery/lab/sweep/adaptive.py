"""Adaptive grids: place the next λ in the widest gap of a front, or beyond its end.

The gap between two neighbouring λ is the area of the rectangle between their final points: the most that a point
between them can add to the hypervolume. Losses are measured in units of their range, on a logarithmic axis where they
span more than a decade, as the report draws them. Main alone (λ = 0) is the front's first point.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from gradsurgery.lab.analysis import LossRange, Point, Variant, final_point, is_main_alone, variant_of
from gradsurgery.lab.lam import has_weight, lam_number, with_number
from gradsurgery.lab.run import RunRecord, RunSpec

STRIDE = 10.0
"""The factor by which the grid grows beyond its ends."""
SMALL_GAP = 0.05**2
"""A gap that is not worth another run: a square with a twentieth of the front's range as its side."""
CLOSE = 1.5
"""Two λ that differ by a smaller factor have no λ between them: what is left of their gap is a jump, as where training
gives main up all at once, and no λ fills it."""
SMALL_COST = 0.1
"""The grid grows towards larger λ while main is worse than main alone by less than this fraction."""


def train_adaptively(
    runs: Sequence[RunSpec], train: Callable[[Sequence[RunSpec]], list[RunRecord]], max_lams: int
) -> list[RunRecord]:
    """Train a coarse grid, then add one λ per method at a time, until no front has a gap worth another run.

    The next λ depend on finished runs only, and each stage waits for all methods. So the same runs are trained
    whatever the number of workers, and a sweep that was killed continues with them.

    Args:
        runs: the coarse grid, with main alone.
        train: trains runs and returns their records; runs that are stored already cost nothing.
        max_lams: the largest number of λ per method, not counting main alone.
    """
    records = train(runs)
    while next_runs := _next_runs(runs, records, max_lams):
        records += train(next_runs)
    return records


def _next_runs(runs: Sequence[RunSpec], records: Sequence[RunRecord], max_lams: int) -> list[RunSpec]:
    """One more λ, with all seeds, for each method and ρ that has fewer than ``max_lams`` and a gap to fill."""
    alone = _mean_point([record for record in records if is_main_alone(record.spec)])
    variants: dict[Variant, dict[int, RunSpec]] = {}
    for run in runs:
        if has_weight(run.lam):
            variants.setdefault(variant_of(run), {})[run.seed] = run
    next_runs: list[RunSpec] = []
    for variant, by_seed in variants.items():
        by_lam: dict[float, list[RunRecord]] = {}
        for record in records:
            lam = record.spec.lam
            if lam is not None and has_weight(lam) and variant_of(record.spec) == variant:
                by_lam.setdefault(lam_number(lam), []).append(record)
        points = {lam: _mean_point(same_lam) for lam, same_lam in by_lam.items()}
        number = next_lam({0.0: alone, **points} if alone else points) if len(points) < max_lams else None
        if number is not None:
            next_runs += [replace(run, lam=with_number(run.lam, number)) for run in by_seed.values() if run.lam]
    return next_runs


def _mean_point(records: Sequence[RunRecord]) -> Point | None:
    """The mean final losses over seeds; None without runs, or if any of them diverged or failed."""
    points = [final_point(record, "train") or final_point(record, "test") for record in records]
    if not points or None in points:
        return None
    main, aux = zip(*(point for point in points if point), strict=True)
    return statistics.fmean(main), statistics.fmean(aux)


def next_lam(points: Mapping[float, Point | None]) -> float | None:
    """The λ to train next, or None if the front has no gap worth another run.

    Args:
        points: mean final losses by λ, with main alone as λ = 0; None for a λ that diverged or failed.
    """
    finite = {lam: point for lam, point in sorted(points.items()) if point is not None}
    lams = list(finite)
    if len(lams) < 2:
        return None
    if _should_grow(points, finite):
        return _round(lams[-1] * STRIDE)
    main, aux = (_whole_range([point[loss] for point in finite.values()]) for loss in (0, 1))
    positions = [(main.position(point[0]), aux.position(point[1])) for point in finite.values()]
    gaps = [_gap(left, right) for left, right in pairwise(positions)]
    for gap, (low, high) in sorted(zip(gaps, pairwise(lams), strict=True), key=lambda item: -item[0]):
        if gap <= SMALL_GAP:
            return None
        lam = _round(high / STRIDE if low == 0 else math.sqrt(low * high))
        if high >= CLOSE * low and lam not in points:  # it is among them if it has failed
            return lam
    return None


def _gap(left: Point, right: Point) -> float:
    """The area between two points of a front; 0 if one of them dominates the other."""
    return max(right[0] - left[0], 0.0) * max(left[1] - right[1], 0.0)


def _should_grow(points: Mapping[float, Point | None], finite: Mapping[float, Point]) -> bool:
    """True if the largest λ has the lowest aux at little cost to main, and no larger λ diverged."""
    largest = max(finite)
    alone, end = finite[min(finite)], finite[largest]
    lowest = end[1] <= min(point[1] for point in finite.values())
    return largest == max(points) and lowest and end[0] - alone[0] <= SMALL_COST * abs(alone[0])


def _whole_range(losses: Sequence[float]) -> LossRange:
    return LossRange.between(min(losses), max(losses))


def _round(lam: float) -> float:
    """λ with three significant digits: easy to read, and the same on every machine."""
    return float(f"{lam:.3g}")
