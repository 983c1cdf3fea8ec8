"""A mean over seeds with its confidence interval (Student's t)."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

from gradsurgery.lab.text import number

BySeed: TypeAlias = Mapping[int, float]
CONFIDENCE = 0.95
MAX_SEEDS = 100
"""No experiment is planned with more seeds."""


@dataclass(frozen=True)
class Interval:
    """A mean and the interval that contains the true one with the given confidence; infinite for one seed."""

    mean: float
    low: float
    high: float
    seeds: int

    def describe(self, write: Callable[[float], str] = number, *, percent: bool = False) -> str:
        """For example ``0.12 [0.08, 0.16]``, or ``12 % [8, 16]``; of one seed the mean alone."""
        mean, low, high = (write(100 * value if percent else value) for value in (self.mean, self.low, self.high))
        return f"{mean}{' %' * percent}{f' [{low}, {high}]' if self.seeds > 1 else ''}"

    def map(self, function: Callable[[float], float]) -> "Interval":
        """The interval of a function that only rises, or only falls."""
        low, high = sorted(map(function, (self.low, self.high)))
        return Interval(function(self.mean), low, high, self.seeds)


@cache
def student_t(degrees: int, confidence: float = CONFIDENCE) -> float:
    """How many standard errors a two-sided interval reaches from the mean.

    Example:
        >>> round(student_t(2), 3), round(student_t(30), 3)
        (4.303, 2.042)
    """
    from scipy.special import stdtrit  # slow to import

    return float(stdtrit(degrees, (1 + confidence) / 2))


def interval_of(values: Iterable[float], confidence: float = CONFIDENCE) -> Interval:
    """The interval of the mean of one value per seed; infinite for fewer than two values, or if any is not finite."""
    values = list(values)
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return Interval(sum(values) / len(values) if values else math.nan, -math.inf, math.inf, len(values))
    mean = mean_of(values)
    reach = student_t(len(values) - 1, confidence) * _deviation(values, mean) / math.sqrt(len(values))
    return Interval(mean, mean - reach, mean + reach, len(values))


def seeds_needed(values: Iterable[float], confidence: float = CONFIDENCE) -> int | None:
    """How many seeds with this mean and deviation have an interval without 0; None if more than ``MAX_SEEDS``.

    Example:
        >>> seeds_needed([0.5, 1.0, 1.5])
        4
    """
    values = list(values)
    mean = mean_of(values)
    deviation = _deviation(values, mean)
    for seeds in range(2, MAX_SEEDS + 1):
        if student_t(seeds - 1, confidence) * deviation < abs(mean) * math.sqrt(seeds):
            return seeds
    return None


def _deviation(values: Sequence[float], mean: float) -> float:
    """The standard deviation of at least two values; ``statistics.stdev``, which uses fractions, takes much longer."""
    return math.hypot(*(value - mean for value in values)) / math.sqrt(len(values) - 1)


def mean_of(values: Sequence[float]) -> float:
    """The mean of finite numbers, also where their sum is too large for a float: a loss may have diverged."""
    try:
        return statistics.fmean(values)
    except OverflowError:
        return math.fsum(value / len(values) for value in values)


def growth(logarithm: float) -> float:
    """exp(logarithm) - 1; infinite where that is too large for a float."""
    try:
        return math.expm1(logarithm)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class Estimate:
    """One number per seed, and what they say about their mean."""

    by_seed: BySeed = field(default_factory=dict)

    @property
    def interval(self) -> Interval:
        """The mean with its 95 % interval."""
        return interval_of(self.by_seed.values())

    def describe(self, *, percent: bool = False) -> str:
        """The mean with its interval; of one seed the number itself; a dash without any."""
        return self.interval.describe(percent=percent) if self.by_seed else "–"
