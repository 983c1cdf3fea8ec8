"""The region of the loss plane that charts show and in which hypervolumes are measured."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradsurgery.lab.reports.pareto import front, hypervolume
from gradsurgery.lab.reports.series import Point, Series

_MARGIN = 0.1
_ROUNDING = 1e-6  # float32 losses that differ by less are equal


@dataclass(frozen=True)
class LossRange:
    """An interval of one loss, with the scale of its axis."""

    best: float
    worst: float
    logarithmic: bool

    @property
    def is_degenerate(self) -> bool:
        """True if the interval is empty, or no wider than the rounding of a float32."""
        return self.worst - self.best <= _ROUNDING * max(abs(self.best), abs(self.worst))

    def position(self, loss: float) -> float:
        """Where a loss is on the axis: 0 at the best and below, 1 at the worst."""
        if loss <= self.best or self.best == self.worst:
            return 0.0 if loss <= self.best else math.inf
        if not self.logarithmic:
            return (loss - self.best) / (self.worst - self.best)
        return (math.log(loss) - math.log(self.best)) / (math.log(self.worst) - math.log(self.best))

    def clip(self, best: float, worst: float) -> "LossRange":
        """The part of the range between two losses; degenerate if there is none."""
        return LossRange(max(best, self.best), min(worst, self.worst), self.logarithmic)

    def extend(self, losses: Iterable[float]) -> "LossRange":
        """The range, widened to include the losses that are beyond its ends by at most twice its width."""
        scale = math.log if self.logarithmic else float
        low, high = scale(self.best), scale(self.worst)
        reach = 2 * (high - low)
        on_axis = (loss for loss in losses if loss > 0 or not self.logarithmic)
        near = [loss for loss in on_axis if low - reach <= scale(loss) <= high + reach]
        return LossRange(min([self.best, *near]), max([self.worst, *near]), self.logarithmic)

    def axis_limits(self, logarithmic: bool) -> tuple[float, float]:
        """The limits of a linear or logarithmic axis, with a margin on both sides for the markers."""
        if logarithmic:
            factor = math.exp(_MARGIN * (math.log(self.worst) - math.log(self.best)))
            return self.best / factor, self.worst * factor
        margin = _MARGIN * ((self.worst - self.best) or abs(self.best) or 1.0)
        return self.best - margin, self.worst + margin


def range_of(losses: Iterable[float]) -> LossRange:
    """The range that shows the losses, at least one of which must be finite.

    It is logarithmic if all losses are positive and span more than a decade. Outliers, such as a run that is about to
    diverge, are left out: losses further than ten interquartile ranges from the middle half, measured on the axis.
    """
    values = sorted(loss for loss in losses if math.isfinite(loss))
    if not values:
        raise ValueError("a range needs at least one finite loss, but got none")
    logarithmic = values[0] > 0 and values[-1] / values[0] > 10
    scaled = [math.log(value) if logarithmic else value for value in values]
    low, _, high = statistics.quantiles(scaled, method="inclusive") if len(values) > 1 else scaled * 3
    reach = 10 * (high - low) or math.inf
    inside = [value for value, place in zip(values, scaled, strict=True) if low - reach <= place <= high + reach]
    return LossRange(inside[0], inside[-1], logarithmic)


@dataclass(frozen=True)
class Region:
    """A rectangle of the loss plane, on train or on test data."""

    main: LossRange
    aux: LossRange

    def hypervolume(self, points: Iterable[Point]) -> float:
        """The share of the region that the points dominate, from 0 to 1, measured on the region's axes.

        The reference point is the corner of both worst losses moved out by a tenth of the region, so that the best
        point in one loss counts even if it is the worst in the other.
        """
        positions = [(self.main.position(main), self.aux.position(aux)) for main, aux in points]
        return hypervolume(positions, (1 + _MARGIN, 1 + _MARGIN)) / (1 + _MARGIN) ** 2


def region_of_fronts(groups: Iterable[Series], split: str) -> Region:
    """The region that holds the front of each method and seed.

    Dominated points do not widen it: the same method does better at another λ.
    """
    fronts = [front(group.final_points(split, seed)) for group in groups for seed in group.seeds]
    main, aux = zip(*(point for points in fronts for point in points), strict=True)
    return Region(range_of(main), range_of(aux))


def drawn_region(groups: Iterable[Series], split: str, alone: Iterable[Point]) -> Region:
    """The region of the fronts with the points of main alone, unless they are far away."""
    region, points = region_of_fronts(groups, split), list(alone)
    return Region(
        region.main.extend(main for main, _ in points),
        region.aux.extend(aux for _, aux in points),
    )


def shared_region(groups: Sequence[Series], with_fronts: Sequence[Series], split: str) -> Region:
    """The part of the region up to the worst losses that each of the methods with a front reaches.

    The same grid of λ spans a longer stretch of the front for some methods than for others. A longer stretch is not a
    better one, so fronts are compared only where all of them have points. Either range is degenerate if no such part
    exists.
    """
    whole = region_of_fronts(groups, split)
    worst_main, worst_aux = (
        min(max(point[loss] for point in group.final_points(split)) for group in with_fronts) for loss in (0, 1)
    )
    inside = [
        (main, aux)
        for group in groups
        for main, aux in group.final_points(split)
        if main <= worst_main and aux <= worst_aux
    ]
    best_main, best_aux = (min((point[loss] for point in inside), default=math.inf) for loss in (0, 1))
    return Region(whole.main.clip(best_main, worst_main), whole.aux.clip(best_aux, worst_aux))
