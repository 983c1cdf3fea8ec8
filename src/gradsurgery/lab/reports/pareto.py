"""Pareto fronts of two losses that should both be small.

A point (main, aux) dominates another if it is no worse in both losses and better in one. The front of a method is the
set of its points that none of its points dominates. Its hypervolume is the area that the front dominates, up to a
reference point that is the same for all methods:

    hypervolume = area { z : point <= z <= reference for some point }
"""

import math
import statistics
from collections.abc import Iterable

from gradsurgery.lab.reports.series import Point


def front(points: Iterable[Point]) -> list[Point]:
    """The points that no other point dominates, without duplicates, by increasing main. Non-finite points are ignored.

    Example:
        >>> front([(1.0, 3.0), (2.0, 2.0), (2.0, 4.0), (3.0, 1.0)])
        [(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]
    """
    kept: list[Point] = []
    for point in sorted(point for point in points if all(map(math.isfinite, point))):
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    return kept


def hypervolume(points: Iterable[Point], reference: Point) -> float:
    """The area that the points dominate up to the reference. A point beyond the reference in either loss adds nothing.

    Example:
        >>> hypervolume([(1.0, 3.0), (2.0, 2.0), (9.0, 0.0)], reference=(4.0, 4.0))
        5.0
    """
    right, top = reference
    if not (math.isfinite(right) and math.isfinite(top)):
        raise ValueError(f"the reference point must be finite, but got {reference}")
    area = 0.0
    for main, aux in front(points):
        if main < right and aux < top:
            area += (right - main) * (top - aux)
            top = aux
    return area


def dominated_share(points: Iterable[Point], rivals: Iterable[Point]) -> float:
    """The share of the points that a rival dominates; NaN without points. Equal points do not dominate each other."""
    points, best = list(points), front(rivals)
    dominated = [any(m <= main and a <= aux and (m, a) != (main, aux) for m, a in best) for main, aux in points]
    return statistics.fmean(dominated) if dominated else math.nan
