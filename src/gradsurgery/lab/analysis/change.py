"""A metric against a reference, paired by seed.

Positive values are compared by their ratio, so that the scale of a loss does not matter:

    change = exp(mean over seeds of log (value / reference)) - 1

Values that are not all positive are compared by their difference: mean (value - reference) / |mean reference|.
"""

import math
import operator
from dataclasses import dataclass

from gradsurgery.lab.analysis.interval import (
    CONFIDENCE,
    BySeed,
    Interval,
    growth,
    interval_of,
    mean_of,
    seeds_needed,
)
from gradsurgery.lab.objective import Objective
from gradsurgery.lab.text import number


@dataclass(frozen=True)
class Change:
    """How one metric compares with a reference, such as the same metric of main alone."""

    objective: Objective
    values: BySeed
    reference: BySeed
    """The reference of the same seeds, in the same order."""

    @classmethod
    def on_common_seeds(cls, objective: Objective, values: BySeed, reference: BySeed) -> "Change":
        """The change on the seeds of both."""
        seeds = [seed for seed in values if seed in reference]
        return cls(objective, {seed: values[seed] for seed in seeds}, {seed: reference[seed] for seed in seeds})

    def against(self, rival: "Change") -> "Change":
        """The change from the values of a rival, on the seeds of both."""
        return Change.on_common_seeds(self.objective, self.values, rival.values)

    @property
    def seeds(self) -> int:
        """How many seeds are compared."""
        return len(self.values)

    @property
    def is_ratio(self) -> bool:
        """True if the change is a ratio: all values are positive."""
        return min(*self.values.values(), *self.reference.values()) > 0

    def fraction(self, confidence: float = CONFIDENCE) -> Interval:
        """The change as a fraction of the reference: −0.1 is 10 % lower. NaN if the reference is 0.

        The interval of a single seed is infinite.
        """
        if self.is_ratio:
            return interval_of(self._changes, confidence).map(growth)
        unit = self._unit
        return self.difference(confidence).map(lambda value: value / unit if unit else math.nan)

    def difference(self, confidence: float = CONFIDENCE) -> Interval:
        """The change as a difference. The interval of a single seed is infinite."""
        return interval_of(self._differences, confidence)

    def excess(self, *, absolute: bool = False) -> Interval:
        """How much worse the metric is than its reference, as a fraction or as a difference; below 0 if better."""
        change = self.difference() if absolute else self.fraction()
        return change.map(operator.neg) if self.objective.maximise else change

    def is_better(self, confidence: float = CONFIDENCE) -> bool:
        """True if the metric is better than its reference with this confidence; never for one seed."""
        return self.seeds > 1 and self.effect(confidence).high < 0

    def effect(self, confidence: float = CONFIDENCE) -> Interval:
        """The mean over seeds of the log of the ratio, or of the difference; above 0 if worse."""
        return interval_of(self._effects, confidence)

    def seeds_to_decide(self, confidence: float = CONFIDENCE) -> int | None:
        """How many seeds like these would tell the metric from its reference; None for too many to say."""
        return seeds_needed(self._effects, confidence)

    def seeds_within(self, limit: float, *, absolute: bool = False) -> int | None:
        """How many seeds like these would tell that the excess is below a limit; None for too many to say."""
        if self.is_ratio and not absolute:
            if self.objective.maximise and limit >= 1:
                return None  # no positive value is beyond it
            worst = -math.log1p(-limit) if self.objective.maximise else math.log1p(limit)
            return seeds_needed([effect - worst for effect in self._effects])
        unit = 1.0 if absolute else self._unit
        return seeds_needed([self.objective.sign * difference - limit * unit for difference in self._differences])

    def describe(self, *, absolute: bool = False) -> str:
        """For example ``+1.4 %``, and with several seeds the 95 % interval: ``+1.4 % [+0.9, +1.9]``.

        Absolute: ``+0.014 [+0.009, +0.019]``. Values that are not all positive: ``0.2 → −1.3 [−1.4, −1.2]``.
        """
        if absolute:
            return self.difference().describe(_signed)
        if self.is_ratio:
            return self.fraction().describe(_one_decimal, percent=True)
        before = mean_of(list(self.reference.values()))
        return f"{number(before)} → {self.difference().map(lambda value: before + value).describe()}"

    @property
    def _unit(self) -> float:
        return abs(mean_of(list(self.reference.values())))

    @property
    def _differences(self) -> list[float]:
        return [value - self.reference[seed] for seed, value in self.values.items()]

    @property
    def _changes(self) -> list[float]:
        if not self.is_ratio:
            return self._differences
        return [math.log(value / self.reference[seed]) for seed, value in self.values.items()]

    @property
    def _effects(self) -> list[float]:
        return [self.objective.sign * change for change in self._changes]


def _one_decimal(value: float) -> str:
    return f"{value:+z,.1f}".replace("-", "\N{MINUS SIGN}")


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{number(value)}"
