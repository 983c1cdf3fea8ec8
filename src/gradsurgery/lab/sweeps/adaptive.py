"""Where to place the next λ: in the widest gap of a front, or beyond its end.

A front is sampled well when neighbouring λ end at neighbouring points. Losses are measured in units of their range, on
a logarithmic axis where they span more than a decade, as the report draws them. Main alone (λ = 0) is the front's
first point.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from gradsurgery.lab.reports.region import LossRange
from gradsurgery.lab.reports.series import Point

START = 3
"""How many λ a sweep begins with, evenly spaced on a logarithmic axis."""
STRIDE = 10.0
"""The factor by which the grid grows beyond its ends."""
SMALL_GAP = 0.08
"""A gap, in units of the front's range, that is not worth another run."""
MAIN_ENOUGH = 0.1
"""The grid grows towards larger λ while main is worse than main alone by less than this fraction."""


def first_lams(low: float, high: float) -> tuple[float, ...]:
    """The λ to begin with.

    Example:
        >>> first_lams(0.01, 1.0)
        (0.01, 0.1, 1.0)
    """
    exponents = [math.log10(low) + (math.log10(high) - math.log10(low)) * k / (START - 1) for k in range(START)]
    return tuple(_rounded(10**exponent) for exponent in exponents)


def next_lam(points: Mapping[float, Point | None]) -> float | None:
    """The λ to train next, or None if the front has no gap worth another run.

    Args:
        points: mean final losses by λ, with main alone as λ = 0; None for a λ that diverged.
    """
    ends = {lam: point for lam, point in sorted(points.items()) if point is not None}
    lams = list(ends)
    if len(lams) < 2:
        return None
    main, aux = (_whole_range([point[loss] for point in ends.values()]) for loss in (0, 1))
    placed = [(main.position(point[0]), aux.position(point[1])) for point in ends.values()]
    if _grows(points, ends):
        return _rounded(lams[-1] * STRIDE)
    gaps = [math.dist(left, right) for left, right in pairwise(placed)]
    widest = max(range(len(gaps)), key=gaps.__getitem__)
    if gaps[widest] <= SMALL_GAP:
        return None
    low, high = lams[widest], lams[widest + 1]
    return _rounded(high / STRIDE if low == 0 else math.sqrt(low * high))


def _grows(points: Mapping[float, Point | None], ends: Mapping[float, Point]) -> bool:
    """Whether the largest λ still has the lowest aux at little cost to main, and nothing beyond it diverged."""
    last = max(ends)
    alone, end = ends[min(ends)], ends[last]
    lowest = end[1] <= min(point[1] for point in ends.values())
    return last == max(points) and lowest and end[0] - alone[0] <= MAIN_ENOUGH * abs(alone[0])


def _whole_range(losses: Sequence[float]) -> LossRange:
    best, worst = min(losses), max(losses)
    return LossRange(best, worst, logarithmic=best > 0 and worst / best > 10)


def _rounded(lam: float) -> float:
    """λ with three digits: easy to read, and the same on every machine."""
    return float(f"{lam:.3g}")
