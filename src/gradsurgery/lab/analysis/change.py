"""A loss against a reference, paired by seed.

Positive losses are compared by their ratio, so that the scale of a loss does not matter:

    change = exp(mean over seeds of log (loss / reference)) - 1

Losses that are not all positive are compared by their difference: mean (loss - reference) / |mean reference|.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from gradsurgery.lab.analysis.interval import CONFIDENCE, BySeed, Interval, interval_of, seeds_needed
from gradsurgery.lab.text import number


@dataclass(frozen=True)
class Change:
    """How one loss compares with a reference, such as the same loss of main alone."""

    losses: BySeed
    reference: BySeed
    """The reference of the same seeds, in the same order."""

    @classmethod
    def on_common_seeds(cls, losses: BySeed, reference: BySeed) -> "Change":
        """The change on the seeds of both."""
        seeds = [seed for seed in losses if seed in reference]
        return cls({seed: losses[seed] for seed in seeds}, {seed: reference[seed] for seed in seeds})

    @property
    def seeds(self) -> int:
        """How many seeds are compared."""
        return len(self.losses)

    @property
    def is_ratio(self) -> bool:
        """True if the change is a ratio: all losses are positive."""
        return min(*self.losses.values(), *self.reference.values()) > 0

    def fraction(self, confidence: float = CONFIDENCE) -> Interval:
        """The change as a fraction of the reference: −0.1 is 10 % lower. NaN if the reference is 0.

        The interval of a single seed is infinite.
        """
        if self.is_ratio:
            return _map(self.effect(confidence), math.expm1)
        unit = abs(statistics.fmean(self.reference.values()))
        return _map(self.difference(confidence), lambda value: value / unit if unit else math.nan)

    def difference(self, confidence: float = CONFIDENCE) -> Interval:
        """The change as a difference of losses. The interval of a single seed is infinite."""
        return _interval(self._differences, confidence)

    def effect(self, confidence: float = CONFIDENCE) -> Interval:
        """The mean over seeds of the log of the ratio, or of the difference: 0 if nothing changed."""
        return _interval(self._effects, confidence)

    def is_lower(self, confidence: float = CONFIDENCE) -> bool:
        """True if the loss is below its reference with this confidence; never for one seed."""
        return self.seeds > 1 and self.effect(confidence).high < 0

    def seeds_to_decide(self, confidence: float = CONFIDENCE) -> int | None:
        """How many seeds like these would tell the loss from its reference; None for too many to say."""
        return seeds_needed(self._effects, confidence)

    def seeds_within(self, limit: float, *, absolute: bool = False) -> int | None:
        """How many seeds like these would tell that the change is below a limit; None for too many to say."""
        if self.is_ratio and not absolute:
            return seeds_needed([effect - math.log1p(limit) for effect in self._effects])
        unit = 1.0 if absolute else abs(statistics.fmean(self.reference.values()))
        return seeds_needed([difference - limit * unit for difference in self._differences])

    def describe(self, *, absolute: bool = False) -> str:
        """For example ``+1.4 %``, and with several seeds the 95 % interval: ``+1.4 % [+0.9, +1.9]``.

        Absolute: ``+0.014 [+0.009, +0.019]``. Losses that are not all positive: ``0.2 → −1.3 [−1.4, −1.2]``.
        """
        if absolute:
            return _describe(self.difference(), _signed)
        if self.is_ratio:
            return _describe(self.fraction(), _percent, unit=" %")
        before = statistics.fmean(self.reference.values())
        return f"{number(before)} → {_describe(_map(self.difference(), lambda value: before + value), number)}"

    @property
    def _differences(self) -> list[float]:
        return [loss - self.reference[seed] for seed, loss in self.losses.items()]

    @property
    def _effects(self) -> list[float]:
        if not self.is_ratio:
            return self._differences
        return [math.log(loss / self.reference[seed]) for seed, loss in self.losses.items()]


def _interval(values: list[float], confidence: float) -> Interval:
    interval = interval_of(values, confidence)
    return interval or Interval(statistics.fmean(values), -math.inf, math.inf, len(values))


def _map(interval: Interval, function: Callable[[float], float]) -> Interval:
    return Interval(function(interval.mean), function(interval.low), function(interval.high), interval.seeds)


def _describe(interval: Interval, write: Callable[[float], str], unit: str = "") -> str:
    ends = f" [{write(interval.low)}, {write(interval.high)}]" if interval.seeds > 1 else ""
    return f"{write(interval.mean)}{unit}{ends}"


def _percent(value: float) -> str:
    rounded = round(100 * value, 1) + 0.0  # no negative zero
    return f"{rounded:+,.1f}".replace("-", "\N{MINUS SIGN}")


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{number(value)}"
