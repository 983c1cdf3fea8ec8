"""Pareto fronts of two losses, both to be made small, and how good a method's front is.

A point (main, aux) dominates another if it is no worse in both losses and better in one. The front of a method is what
its points leave when those dominated are gone; its hypervolume is the area of all that they dominate, up to a reference
point that is the same for all methods:

    hypervolume = area { z : point <= z <= reference for some point }
"""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from gradsurgery.lab.reports.series import Point, Series, series
from gradsurgery.lab.run import RunRecord

_MARGIN = 0.1


def front(points: Iterable[Point]) -> list[Point]:
    """The points that no other dominates, each once, by growing main and falling aux; NaN and infinities are no points.

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
    """The area that the points dominate up to the reference; a point beyond it in either loss counts nothing.

    Example:
        >>> hypervolume([(1.0, 3.0), (2.0, 2.0), (9.0, 0.0)], reference=(4.0, 4.0))
        5.0
    """
    right, top = reference
    if not (math.isfinite(right) and math.isfinite(top)):
        raise ValueError(f"the reference point bounds the area, so it is finite, but got {reference}")
    area = 0.0
    for main, aux in front(points):
        if main < right and aux < top:
            area += (right - main) * (top - aux)
            top = aux
    return area


def dominated_share(points: Iterable[Point], rivals: Iterable[Point]) -> float:
    """The share of the points that some rival dominates; an equal point does not. NaN if there are no points."""
    points, best = list(points), front(rivals)
    beaten = [any(m <= main and a <= aux and (m, a) != (main, aux) for m, a in best) for main, aux in points]
    return statistics.fmean(beaten) if beaten else math.nan


@dataclass(frozen=True)
class Axis:
    """The range of one loss in which methods are compared and drawn."""

    best: float
    worst: float
    logarithmic: bool

    def place(self, loss: float) -> float:
        """0 for the best and below, 1 for the worst, and in between as the axis has it."""
        if loss <= self.best or self.best == self.worst:
            return 0.0 if loss <= self.best else math.inf
        if not self.logarithmic:
            return (loss - self.best) / (self.worst - self.best)
        return (math.log(loss) - math.log(self.best)) / (math.log(self.worst) - math.log(self.best))

    def between(self, best: float, worst: float) -> "Axis":
        """The part of the axis between two losses, if that leaves anything of it."""
        best, worst = max(best, self.best), min(worst, self.worst)
        return Axis(best, worst, self.logarithmic) if best < worst else self

    def view(self, logarithmic: bool) -> tuple[float, float]:
        """The range to draw on a linear or a logarithmic axis: a margin on both sides leaves room for symbols."""
        if logarithmic:
            reach = math.exp(_MARGIN * (math.log(self.worst) - math.log(self.best)))
            return self.best / reach, self.worst * reach
        pad = _MARGIN * ((self.worst - self.best) or abs(self.best) or 1.0)
        return self.best - pad, self.worst + pad


def axis(losses: Iterable[float]) -> Axis:
    """The axis that shows the losses, of which at least one is finite.

    It is logarithmic if all are positive and span more than a decade. It leaves out what is further from the middle
    half of them than ten times that half's width, measured on the axis: a run about to diverge.
    """
    values = sorted(loss for loss in losses if math.isfinite(loss))
    if not values:
        raise ValueError("an axis needs at least one finite loss, but got none")
    logarithmic = values[0] > 0 and values[-1] / values[0] > 10
    scaled = [math.log(value) if logarithmic else value for value in values]
    low, _, high = statistics.quantiles(scaled, method="inclusive") if len(values) > 1 else scaled * 3
    reach = 10 * (high - low) or math.inf
    inside = [value for value, at in zip(values, scaled, strict=True) if low - reach <= at <= high + reach]
    return Axis(inside[0], inside[-1], logarithmic)


@dataclass(frozen=True)
class Box:
    """The rectangle in which all methods of a problem are compared, on train or on test data."""

    main: Axis
    aux: Axis

    def hypervolume(self, points: Iterable[Point]) -> float:
        """The share of the box that the points dominate, from 0 to 1, on axes as the chart has them.

        The reference point is the corner of both worst losses, moved out by a tenth of the box, so that the best of one
        loss counts even where it is the worst of the other.
        """
        placed = [(self.main.place(main), self.aux.place(aux)) for main, aux in points]
        return hypervolume(placed, (1 + _MARGIN, 1 + _MARGIN)) / (1 + _MARGIN) ** 2


def box(groups: Iterable[Series], split: str) -> Box:
    """The box that holds the front of each method and seed, on ``train`` or ``test`` data.

    Dominated points do not stretch it: a run that went wrong is beaten by its own method with another lam.
    """
    fronts = [front(group.points(split, seed)) for group in groups for seed in group.seeds]
    main, aux = zip(*(point for points in fronts for point in points), strict=True)
    return Box(axis(main), axis(aux))


def common_box(groups: Iterable[Series], split: str) -> Box:
    """The part of the box in which every method with three points a seed or more has some: up to its worst losses.

    Methods spread the same grid of lam over stretches of different length. Who happens to go further to one side is not
    better for it, so fronts are compared where they all have points.
    """
    groups = list(groups)
    whole = box(groups, split)
    spread = [points for group in groups if len(points := group.points(split)) >= 3 * len(group.seeds)]
    if not spread:
        return whole
    right, top = (min(max(point[loss] for point in points) for points in spread) for loss in (0, 1))
    inside = [(main, aux) for group in groups for main, aux in group.points(split) if main <= right and aux <= top]
    best_main, best_aux = (min((point[loss] for point in inside), default=math.inf) for loss in (0, 1))
    return Box(whole.main.between(best_main, right), whole.aux.between(best_aux, top))


@dataclass(frozen=True)
class Summary:
    """One row of the table: how a method's fronts compare with the others'."""

    label: str
    hypervolume: float
    """Mean over seeds of the share of the common box that the runs of one seed dominate (``Box.hypervolume``)."""
    spread: float
    """Standard deviation over seeds; NaN if there is one."""
    dominated: float
    """Share of its points that a point of another method with the same seed dominates; NaN if there is none."""
    runs: int
    """Runs that came to an end, well or not."""
    failed: int
    """Those of them that failed or diverged: they are no points, and a seed without points has hypervolume 0."""


def summary(records: Iterable[RunRecord], split: str = "train") -> list[Summary]:
    """How the methods compare on the runs of one problem, in the order of the paper's Table 1.

    Fronts, hypervolumes and domination are taken seed by seed, so that luck is not counted as merit. Runs still under
    way are left out; a problem without these losses has no rows.
    """
    groups = [group for group in map(Series.ended, series(records)) if group.measures(split)]
    frame = common_box(groups, split) if any(group.points(split) for group in groups) else None
    return [_row(group, [rival for rival in groups if rival is not group], split, frame) for group in groups]


def _row(group: Series, rivals: list[Series], split: str, frame: Box | None) -> Summary:
    volumes, shares = [], []
    for seed in group.seeds:
        points = group.points(split, seed)
        rival_points = [point for rival in rivals for point in rival.points(split, seed)]
        volumes.append(frame.hypervolume(points) if frame else 0.0)
        if points and rival_points:
            shares.append(dominated_share(points, rival_points))
    return Summary(
        label=group.look.label,
        hypervolume=statistics.fmean(volumes),
        spread=statistics.stdev(volumes) if len(volumes) > 1 else math.nan,
        dominated=statistics.fmean(shares) if shares else math.nan,
        runs=len(group.records),
        failed=len(group.records) - len(group.points(split)),
    )
