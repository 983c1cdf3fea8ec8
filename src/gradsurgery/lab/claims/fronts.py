"""Two fronts compared where both have points, seed by seed.

The common box ends, in each loss, where the front of either method does. Inside, two numbers compare the methods:
the difference of their hypervolumes, as shares of the box, and main's loss at equal aux, by interpolation.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from gradsurgery.lab.claims.claim import BySeed
from gradsurgery.lab.claims.theory.descent import Array
from gradsurgery.lab.reports.pareto import front
from gradsurgery.lab.reports.region import LossRange, Region
from gradsurgery.lab.reports.series import Point, final_point
from gradsurgery.lab.run import RunRecord

Fronts = dict[int, list[Point]]
"""The front of one method, by seed."""
LEVELS = 9
"""How many values of aux main is compared at."""


def fronts_of(records: Sequence[RunRecord], method: str, split: str) -> Fronts:
    """The front of a method for each seed in which it has at least two points."""
    points: dict[int, list[Point]] = {}
    for record in records:
        if record.spec.method == method and (point := final_point(record, split)) is not None:
            points.setdefault(record.spec.seed, []).append(point)
    by_seed = {seed: front(each) for seed, each in sorted(points.items())}
    return {seed: each for seed, each in by_seed.items() if len(each) >= 2}


def common_box(first: Fronts, second: Fronts) -> Region | None:
    """The rectangle within the losses that both methods reach; None if there is none."""
    ranges = []
    for loss in (0, 1):
        ends = [[point[loss] for points in fronts.values() for point in points] for fronts in (first, second)]
        if not all(ends):
            return None
        best, worst = max(map(min, ends)), min(map(max, ends))
        ranges.append(LossRange(best, worst, logarithmic=best > 0 and worst / best > 10))
    region = Region(*ranges)
    return None if region.main.is_degenerate or region.aux.is_degenerate else region


def hypervolume_lead(method: str, rival: str, split: str) -> Callable[[Sequence[RunRecord]], BySeed]:
    """Measures the hypervolume of ``method`` less that of ``rival``, in the box common to all seeds."""

    def measure(records: Sequence[RunRecord]) -> BySeed:
        own, other = fronts_of(records, method, split), fronts_of(records, rival, split)
        box = common_box(own, other)
        if box is None:
            return {}
        both = [seed for seed in own if seed in other]
        return {seed: box.hypervolume(own[seed]) - box.hypervolume(other[seed]) for seed in both}

    return measure


def main_at_equal_aux(method: str, rival: str, split: str) -> Callable[[Sequence[RunRecord]], BySeed]:
    """Measures how much lower or higher main of ``method`` is, as a fraction of main of ``rival`` at the same aux.

    Fronts are joined by straight lines in aux and log main. The value of a seed is the mean over aux values evenly
    spaced in the range that both fronts of the seed cover.
    """

    def measure(records: Sequence[RunRecord]) -> BySeed:
        own, other = fronts_of(records, method, split), fronts_of(records, rival, split)
        values = {}
        for seed in own.keys() & other.keys():
            ends = [[aux for _, aux in fronts[seed]] for fronts in (own, other)]
            low, high = max(map(min, ends)), min(map(max, ends))
            if low < high:
                levels = np.linspace(low, high, LEVELS)
                values[seed] = math.expm1(float(np.mean(_log_main(own[seed], levels) - _log_main(other[seed], levels))))
        return dict(sorted(values.items()))

    return measure


def best_mixture(method: str, rival: str, split: str, t: float) -> Callable[[Sequence[RunRecord]], BySeed]:
    """Measures the lowest (1 - t) main + t aux over lam of ``method``, as a fraction above that of ``rival``."""

    def lowest(records: Sequence[RunRecord], name: str) -> dict[int, float]:
        losses: dict[int, float] = {}
        for record in records:
            if record.spec.method == name and (point := final_point(record, split)) is not None:
                mixture = (1 - t) * point[0] + t * point[1]
                losses[record.spec.seed] = min(mixture, losses.get(record.spec.seed, math.inf))
        return losses

    def measure(records: Sequence[RunRecord]) -> BySeed:
        own, other = lowest(records, method), lowest(records, rival)
        return {seed: own[seed] / other[seed] - 1 for seed in sorted(own.keys() & other.keys())}

    return measure


def _log_main(points: Sequence[Point], levels: Array) -> Array:
    main, aux = zip(*sorted(points, key=lambda point: point[1]), strict=True)
    return np.interp(levels, aux, np.log(main))
