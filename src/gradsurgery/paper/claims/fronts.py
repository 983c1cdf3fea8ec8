"""Two fronts compared where both have points, seed by seed.

The common box ends, in each loss, where the front of either method does. Inside, two numbers compare the methods:
the difference of their hypervolumes, as shares of the box, and main's loss at equal aux, by interpolation.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from gradsurgery.lab import RunRecord
from gradsurgery.lab.reports.pareto import front
from gradsurgery.lab.reports.region import LossRange, Region
from gradsurgery.lab.reports.series import Point, final_point
from gradsurgery.paper.claims.claim import BySeed
from gradsurgery.paper.claims.theory.descent import Array

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
    by_seed = {seed: front(seed_points) for seed, seed_points in sorted(points.items())}
    return {seed: seed_front for seed, seed_front in by_seed.items() if len(seed_front) >= 2}


def common_box(first: Fronts, second: Fronts) -> Region | None:
    """The rectangle of the losses that both methods reach; None if their fronts do not overlap."""
    ranges = []
    for loss in (0, 1):
        losses = [[point[loss] for points in fronts.values() for point in points] for fronts in (first, second)]
        if not all(losses):
            return None
        best, worst = max(map(min, losses)), min(map(max, losses))
        ranges.append(LossRange(best, worst, logarithmic=best > 0 and worst / best > 10))
    region = Region(*ranges)
    return None if region.main.is_degenerate or region.aux.is_degenerate else region


def hypervolume_lead(method: str, rival: str, split: str) -> Callable[[Sequence[RunRecord]], BySeed]:
    """Measures the hypervolume of ``method`` minus that of ``rival``, in the box common to all seeds."""

    def measure(records: Sequence[RunRecord]) -> BySeed:
        fronts, rivals = fronts_of(records, method, split), fronts_of(records, rival, split)
        box = common_box(fronts, rivals)
        if box is None:
            return {}
        both = [seed for seed in fronts if seed in rivals]
        return {seed: box.hypervolume(fronts[seed]) - box.hypervolume(rivals[seed]) for seed in both}

    return measure


def main_at_equal_aux(method: str, rival: str, split: str) -> Callable[[Sequence[RunRecord]], BySeed]:
    """Measures the main loss of ``method`` relative to that of ``rival`` at the same aux: 0.1 is 10 % higher.

    Fronts are joined by straight lines in aux and log main. The value of a seed is the mean over aux values evenly
    spaced in the range that both fronts of the seed cover.
    """

    def measure(records: Sequence[RunRecord]) -> BySeed:
        fronts, rivals = fronts_of(records, method, split), fronts_of(records, rival, split)
        values = {}
        for seed in fronts.keys() & rivals.keys():
            aux_losses = [[aux for _, aux in points] for points in (fronts[seed], rivals[seed])]
            low, high = max(map(min, aux_losses)), min(map(max, aux_losses))
            if low < high:
                levels = np.linspace(low, high, LEVELS)
                differences = _log_main(fronts[seed], levels) - _log_main(rivals[seed], levels)
                values[seed] = math.expm1(float(np.mean(differences)))
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
        losses, rivals = lowest(records, method), lowest(records, rival)
        return {seed: losses[seed] / rivals[seed] - 1 for seed in sorted(losses.keys() & rivals.keys())}

    return measure


def _log_main(points: Sequence[Point], levels: Array) -> Array:
    main, aux = zip(*sorted(points, key=lambda point: point[1]), strict=True)
    return np.interp(levels, aux, np.log(main))
