"""A mean over seeds with its 95 % confidence interval (Student's t)."""

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

_T = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
"""The 97.5 % quantile of Student's t for 1 to 10 degrees of freedom."""
_NORMAL = 1.959964


@dataclass(frozen=True)
class Interval:
    """A mean and the interval that contains the true one with 95 % confidence."""

    mean: float
    low: float
    high: float
    seeds: int


def student_t(degrees: int) -> float:
    """The 97.5 % quantile of Student's t; beyond 10 degrees of freedom by its expansion, exact to 0.001.

    Example:
        >>> round(student_t(2), 3), round(student_t(30), 3)
        (4.303, 2.042)
    """
    if degrees <= len(_T):
        return _T[degrees - 1]
    z, nu = _NORMAL, degrees
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / nu + second / nu**2 + third / nu**3


def interval_of(values: Iterable[float]) -> Interval | None:
    """The interval of the mean of one value per seed; None for fewer than two values, or if any is not finite."""
    values = list(values)
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return None
    mean = statistics.fmean(values)
    reach = student_t(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - reach, mean + reach, len(values))
