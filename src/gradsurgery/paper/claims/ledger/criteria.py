"""The statistics and rules that several claims share. They were fixed before the runs, and none depends on a result."""

from collections.abc import Callable, Sequence

from gradsurgery.lab import Metrics, RunRecord
from gradsurgery.lab.analysis import BySeed
from gradsurgery.lab.lam import lam_number
from gradsurgery.paper.claims.claim import Statistic
from gradsurgery.paper.claims.fronts import hypervolume_lead, main_at_equal_aux
from gradsurgery.paper.claims.rule import Rule

SMALLEST_LEAD = 0.02
"""Share of the common region: a smaller lead in hypervolume does not count."""
SMALLEST_GAIN = 0.01
"""As a fraction of main's loss at equal aux."""
ALIKE = 0.05
"""Two fronts are alike if neither leads by more, in either statistic."""
THREE, FIVE = (0, 1, 2), (0, 1, 2, 3, 4)


def ahead(method: str, rival: str, split: str) -> tuple[Statistic, ...]:
    """The front of a method is better: more hypervolume, and a lower main at equal aux."""
    return _compare(
        method, rival, split, lead=Rule(low=0.0, margin=SMALLEST_LEAD), main=Rule(high=0.0, margin=SMALLEST_GAIN)
    )


def alike(method: str, rival: str, split: str) -> tuple[Statistic, ...]:
    """Neither front is better by more than a twentieth."""
    return _compare(method, rival, split, lead=Rule(-ALIKE, ALIKE), main=Rule(-ALIKE, ALIKE))


def _compare(method: str, rival: str, split: str, *, lead: Rule, main: Rule) -> tuple[Statistic, ...]:
    return (
        Statistic(f"hypervolume, {method} − {rival}, {split}", hypervolume_lead(method, rival, split), lead),
        Statistic(
            f"main at equal aux, {method} / {rival} − 1, {split}",
            main_at_equal_aux(method, rival, split),
            main,
            percent=True,
        ),
    )


def worst_of(value: Callable[[Metrics], float], method: str | None = None) -> Callable[[Sequence[RunRecord]], BySeed]:
    """Measures the largest value over the last rows of the runs of a seed, of one method or of all."""

    def measure(records: Sequence[RunRecord]) -> BySeed:
        values: dict[int, float] = {}
        for record in records:
            if method in (None, record.spec.method):
                seed = record.spec.seed
                values[seed] = max(
                    values.get(seed, 0.0), value({**record.final, "lam": lam_number(record.spec.lam or 0.0)})
                )
        return values

    return measure
