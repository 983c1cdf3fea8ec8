"""The axes of figures and charts: which losses are drawn, on which scale, and where λ has its ticks."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from gradsurgery.lab.analysis.pareto import LossRange, Point, Region, front
from gradsurgery.lab.analysis.series import SeedGroup, Series, final_points
from gradsurgery.lab.text import number, power_of_ten

_MARGIN = 0.1
WIDE_GAP, FEW = 0.8, 0.25
"""At most this fraction of the losses is left out, if a gap wider than this fraction of the axis lies before them."""


def range_of(losses: Iterable[float]) -> LossRange:
    """The range that shows the losses, at least one of which must be finite.

    It is logarithmic if all losses are positive and span more than a decade. A few outliers, such as those of a λ at
    which training nearly diverges or a loss collapses to 0, are left out: they would squeeze the others into a corner.
    """
    values = sorted(loss for loss in losses if math.isfinite(loss))
    if not values:
        raise ValueError("a range needs at least one finite loss; got none")
    inside = _without_outliers(values)
    return LossRange.between(inside[0], inside[-1])


def _without_outliers(values: Sequence[float]) -> Sequence[float]:
    whole = LossRange.between(values[0], values[-1])
    places = map(whole.position, values)
    gap, index = max(((high - low, index) for index, (low, high) in enumerate(pairwise(places), 1)), default=(0.0, 0))
    few, many = sorted((values[:index], values[index:]), key=len)
    if gap > WIDE_GAP and len(few) <= FEW * len(values) and many[0] < many[-1]:
        return _without_outliers(many)
    return values


def drawn_region(groups: Iterable[Series], split: str, alone: SeedGroup | None) -> Region:
    """The region that holds the front of each method and seed, and the points of main alone unless they are far away.

    Dominated points do not widen it: the same method does better at another λ. Nor do outliers in either loss.
    """
    points = [point for group in groups for seed in group.seeds for point in _front_of(group, split, seed)]
    main, aux = map(range_of, zip(*points, strict=True))
    inside = [point for point in points if main.contains(point[0]) and aux.contains(point[1])]
    main, aux = map(range_of, zip(*(inside or points), strict=True))
    ends = alone.points if alone else ()
    return Region(extend(main, (end[0] for end in ends)), extend(aux, (end[1] for end in ends)))


def _front_of(group: Series, split: str, seed: int) -> list[Point]:
    return front(final_points((record for record in group.records if record.spec.seed == seed), split))


def extend(losses: LossRange, others: Iterable[float]) -> LossRange:
    """The range, widened to include the losses that are beyond its ends by at most twice its width."""
    scale = math.log if losses.logarithmic else float
    low, high = scale(losses.best), scale(losses.worst)
    reach = 2 * (high - low)
    on_axis = (loss for loss in others if loss > 0 or not losses.logarithmic)
    near = [loss for loss in on_axis if low - reach <= scale(loss) <= high + reach]
    return LossRange(min([losses.best, *near]), max([losses.worst, *near]), losses.logarithmic)


def axis_limits(losses: LossRange, *, logarithmic: bool) -> tuple[float, float]:
    """The limits of a linear or logarithmic axis, with a margin on both sides for the markers."""
    if logarithmic:
        factor = math.exp(_MARGIN * (math.log(losses.worst) - math.log(losses.best)))
        return losses.best / factor, losses.worst * factor
    margin = _MARGIN * ((losses.worst - losses.best) or abs(losses.best) or 1.0)
    return losses.best - margin, losses.worst + margin


def lam_ticks(lams: Iterable[float | None], room: int = 4) -> dict[float, str]:
    """The tick label of each λ in a figure, in increasing order of λ.

    With more than five λ only 0 and powers of ten get a label, and only every second power if there are more than
    ``room``; the others get an empty one.

    Example:
        >>> lam_ticks([1e-4, 0.000316, 0.001, 0.00316, 0.01, 0.0, None])
        {0.0: '0', 0.0001: '10⁻⁴', 0.000316: '', 0.001: '10⁻³', 0.00316: '', 0.01: '10⁻²'}
    """
    shown = sorted({lam for lam in lams if lam is not None})
    powers = {lam: round(math.log10(lam)) for lam in shown if 0 < lam < math.inf and _is_power_of_ten(lam)}
    if len(shown) <= 5 or len(powers) < 2:
        return {lam: number(lam) for lam in shown}
    step = 1 if len(powers) <= room else 2
    text = power_of_ten if min(powers) < 1e-3 else lambda power: number(10.0**power)
    last = max(powers.values())
    texts = {lam: text(power) for lam, power in powers.items() if (last - power) % step == 0}
    return {lam: texts.get(lam, "" if lam else "0") for lam in shown}


def _is_power_of_ten(value: float) -> bool:
    return math.isclose(value, 10.0 ** round(math.log10(value)), rel_tol=1e-6)


def lam_positions(lams: Iterable[float]) -> dict[float, float]:
    """The position of each λ on a logarithmic axis, with 0 and ∞ one decade beyond the other λ.

    Example:
        >>> lam_positions([0.0, 0.1, 1.0])
        {0.0: 0.01, 0.1: 0.1, 1.0: 1.0}
    """
    shown = sorted(set(lams))
    proper = [lam for lam in shown if 0 < lam < math.inf] or [1.0]
    beyond = {0.0: min(proper) / 10, math.inf: max(proper) * 10}
    return {lam: beyond.get(lam, lam) for lam in shown}
