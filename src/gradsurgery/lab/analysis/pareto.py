"""Pareto fronts of two losses that should both be small.

A point (main, aux) dominates another if it is no worse in both losses and better in one. The front of a method is the
set of its points that none of its points dominates. Its hypervolume is the area that the front dominates, up to a
reference point that is the same for all methods:

    hypervolume = area { z : point <= z <= reference for some point }
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from gradsurgery.lab.analysis.interval import mean_of

Point: TypeAlias = tuple[float, float]
"""The main and the auxiliary loss of a model."""
_MARGIN = 0.1
_ROUNDING = 1e-6  # float32 losses that differ by less are equal


def mean_point(points: Iterable[Point]) -> Point:
    """The mean of each loss over at least one point."""
    main, aux = zip(*points, strict=True)
    return mean_of(main), mean_of(aux)


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
        raise ValueError(f"the reference point must be finite; got {reference}")
    area = 0.0
    for main, aux in front(points):
        if main < right and aux < top:
            area += (right - main) * (top - aux)
            top = aux
    return area


def are_dominated(points: Iterable[Point], rivals: Iterable[Point]) -> bool:
    """True if some rival dominates each of the points. Equal points do not dominate each other."""
    best = front(rivals)
    return all(any(m <= main and a <= aux and (m, a) != (main, aux) for m, a in best) for main, aux in points)


@dataclass(frozen=True)
class LossRange:
    """An interval of one loss, measured on a linear or a logarithmic scale."""

    best: float
    worst: float
    logarithmic: bool

    @classmethod
    def between(cls, best: float, worst: float) -> "LossRange":
        """The range between two losses, logarithmic if both are positive and more than a decade apart."""
        return cls(best, worst, logarithmic=best > 0 and worst / best > 10)

    @property
    def is_degenerate(self) -> bool:
        """True if the interval is empty, or no wider than the rounding of a float32."""
        return self.worst - self.best <= _ROUNDING * max(abs(self.best), abs(self.worst))

    def contains(self, loss: float) -> bool:
        """True if the loss is in the interval."""
        return self.best <= loss <= self.worst

    def position(self, loss: float) -> float:
        """Where a loss is in the range: 0 at the best and below, 1 at the worst."""
        if loss <= self.best or self.best == self.worst:
            return 0.0 if loss <= self.best else math.inf
        if not self.logarithmic:
            return (loss - self.best) / (self.worst - self.best)
        return (math.log(loss) - math.log(self.best)) / (math.log(self.worst) - math.log(self.best))


@dataclass(frozen=True)
class Region:
    """A rectangle of the loss plane."""

    main: LossRange
    aux: LossRange

    def hypervolume(self, points: Iterable[Point]) -> float:
        """The share of the region that the points dominate, from 0 to 1, measured on the region's scales.

        The reference point is the corner of both worst losses moved out by a tenth of the region, so that the best
        point in one loss counts even if it is the worst in the other.
        """
        positions = [(self.main.position(main), self.aux.position(aux)) for main, aux in points]
        return hypervolume(positions, (1 + _MARGIN, 1 + _MARGIN)) / (1 + _MARGIN) ** 2
