"""Adaptive grids: place the next λ in the widest gap of a front, or beyond its end while aux still falls there.

The gap between two neighbouring λ is the area of the rectangle between their final points: the most that a point
between them can add to the hypervolume. Losses are measured in units of their range, on a logarithmic axis where they
span more than a decade, as the report draws them. Main alone (λ = 0) is the front's first point.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from gradsurgery.lab.analysis.criteria import choose_criteria
from gradsurgery.lab.analysis.pareto import LossRange, Point, mean_point
from gradsurgery.lab.analysis.series import final_point, is_main_alone
from gradsurgery.lab.analysis.variant import Variant, variant_of
from gradsurgery.lab.lam import has_weight, lam_number, with_number
from gradsurgery.lab.objective import recorded_objectives
from gradsurgery.lab.run import RunRecord, RunSpec

STRIDE = 10.0
"""The factor by which the grid grows beyond its ends."""
SMALL = 0.05
"""A change of a loss that is not worth another run, in units of the loss's range."""
CLOSE = 1.5
"""Two λ that differ by a smaller factor have no λ between them: what is left of their gap is a jump, as where training
gives main up all at once, and no λ fills it."""
SMALL_COST = 0.1
"""The grid grows towards larger λ while main is worse than main alone by less than this fraction."""
REACH = 1000.0
"""The grid leaves the range that it begins with by at most this factor, and τ ends at 1. Noise can look like a gap next
to main alone, which no small λ fills."""


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
    numbers: dict[str, list[float]] = {}
    for run in runs:
        if has_weight(run.lam):
            numbers.setdefault(run.lam_name, []).append(lam_number(run.lam))
    reach = {name: (min(of) / REACH, 1.0 if name == "τ" else max(of) * REACH) for name, of in numbers.items()}
    planned, records = list(runs), train(runs)
    while next_runs := _next_runs(planned, records, max_lams, reach):
        planned += next_runs
        records += train(next_runs)
    return records


def _next_runs(
    planned: Sequence[RunSpec],
    records: Sequence[RunRecord],
    max_lams: int,
    reach: Mapping[str, tuple[float, float]],
) -> list[RunSpec]:
    """One more λ, with all seeds, for each method and ρ that has fewer than ``max_lams`` and a gap to fill."""
    ends = {record.spec.key: end for record, end in zip(records, _ends(records), strict=True)}

    def mean_end(runs: Sequence[RunSpec]) -> Point | None:
        """The mean over seeds; None without runs, or if any is missing, diverged or failed."""
        points = [point for run in runs if (point := ends.get(run.key))]
        return mean_point(points) if points and len(points) == len(runs) else None

    variants: dict[Variant, dict[float, list[RunSpec]]] = {}
    for run in planned:
        if has_weight(run.lam):
            variants.setdefault(variant_of(run), {}).setdefault(lam_number(run.lam), []).append(run)
    next_runs: list[RunSpec] = []
    for by_lam in variants.values():
        all_seeds = next(iter(by_lam.values()))
        alone = [run for run in planned if is_main_alone(run) and run.settings == all_seeds[0].settings]
        points = {0.0: mean_end(alone)} | {lam: mean_end(runs) for lam, runs in by_lam.items()}
        number = next_lam(points, reach[all_seeds[0].lam_name]) if len(by_lam) < max_lams else None
        if number is not None:
            next_runs += [replace(run, lam=with_number(run.lam, number)) for run in all_seeds if run.lam]
    return next_runs


def _ends(records: Sequence[RunRecord]) -> Iterator[Point | None]:
    """How runs ended: the costs of the metrics that they name, or else their losses."""
    if recorded_objectives(records):
        criteria = choose_criteria(records)
        for record in records:
            values = criteria.end(record)
            yield (criteria.main.sign * values[0], criteria.aux.sign * values[1]) if values else None
    else:
        yield from (final_point(record, "train") or final_point(record, "test") for record in records)


def next_lam(points: Mapping[float, Point | None], reach: tuple[float, float] = (0.0, math.inf)) -> float | None:
    """The λ to train next, or None if the front has no gap worth another run.

    Args:
        points: mean final losses by λ, with main alone as λ = 0; None for a λ that diverged or failed.
        reach: the smallest and the largest λ to train.
    """
    finite = {lam: point for lam, point in sorted(points.items()) if point is not None}
    if not finite:
        return None
    intervals = [(low, high) for _, low, high in sorted(_gaps(finite), reverse=True)]
    if _should_grow(finite):
        intervals.insert(0, (max(finite), math.inf))
    lams = (lam for low, high in intervals for lam in _divide(low, high, points))
    return next((lam for lam in lams if reach[0] <= lam <= reach[1]), None)


def _gaps(finite: Mapping[float, Point]) -> Iterator[tuple[float, float, float]]:
    """The area and the two λ of each gap that is worth another run."""
    main, aux = (LossRange.between(min(losses), max(losses)) for losses in zip(*finite.values(), strict=True))
    positions = [(main.position(point[0]), aux.position(point[1])) for point in finite.values()]
    for (low, high), (left, right) in zip(pairwise(finite), pairwise(positions), strict=True):
        area = max(right[0] - left[0], 0.0) * max(left[1] - right[1], 0.0)  # 0 if one point dominates the other
        if area > SMALL**2:
            yield area, low, high


def _should_grow(finite: Mapping[float, Point]) -> bool:
    """True while the largest λ lowers aux further, at little cost to main; and if every λ but main alone failed."""
    *smaller, largest = finite
    if not smaller:
        return True
    main, lowest = finite[largest]
    aux = [finite[lam][1] for lam in smaller if lam > 0] or [finite[0.0][1]]
    alone = finite[smaller[0]][0]
    # not on a logarithmic axis, where an aux of 1 / λ falls for ever
    falls = min(aux) - lowest > SMALL * (max(aux) - lowest)
    return falls and main - alone <= SMALL_COST * abs(alone)


def _divide(low: float, high: float, points: Mapping[float, Point | None]) -> list[float]:
    """λ in an interval, in order of preference: between two λ, or between one that works and one that failed.

    The points between the two ends all failed; an infinite end is beyond the largest λ.
    """
    failed = sorted(lam for lam in points if low < lam < high)
    if not failed:
        parts = [(low, high)]
    elif high == math.inf:
        parts = [(low, failed[0])]
    else:
        parts = [(low, failed[0]), (failed[-1], high)]
    return [_middle(*part) for part in sorted(parts, key=_ratio, reverse=True) if _ratio(part) >= CLOSE]


def _ratio(part: tuple[float, float]) -> float:
    low, high = part
    return high / low if low else math.inf


def _middle(low: float, high: float) -> float:
    if low == 0:
        return _round(high / STRIDE)
    return _round(low * STRIDE if high == math.inf else math.sqrt(low * high))


def _round(lam: float) -> float:
    """λ with three significant digits: easy to read, and the same on every machine."""
    return float(f"{lam:.3g}")
