"""What claims measure on fronts, for one method against another."""

import math
from collections.abc import Callable, Sequence

from gradsurgery.lab import RunRecord
from gradsurgery.lab.analysis import BySeed, FrontComparison, compare_fronts, final_point, fronts_of


def hypervolume_lead(method: str, rival: str, split: str) -> Callable[[Sequence[RunRecord]], BySeed]:
    """Measures the hypervolume of ``method`` minus that of ``rival``, as shares of their common region."""
    return lambda records: _compare(records, method, rival, split).lead.by_seed


def main_at_equal_aux(method: str, rival: str, split: str) -> Callable[[Sequence[RunRecord]], BySeed]:
    """Measures the main loss of ``method`` relative to that of ``rival`` at the same aux: 0.1 is 10 % higher."""
    return lambda records: _compare(records, method, rival, split).main_at_equal_aux.by_seed


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


def _compare(records: Sequence[RunRecord], method: str, rival: str, split: str) -> FrontComparison:
    first, second = (
        fronts_of((record for record in records if record.spec.method == name), split) for name in (method, rival)
    )
    return compare_fronts(first, second)
