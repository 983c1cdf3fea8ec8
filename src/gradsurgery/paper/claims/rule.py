"""Verdicts by rules that are fixed before any run: where the 95 % interval of a statistic has to be."""

import math
from dataclasses import dataclass
from enum import StrEnum

from gradsurgery.lab.analysis import Interval
from gradsurgery.lab.text import number


class Verdict(StrEnum):
    """What the runs say about a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Rule:
    """A claim holds if the whole interval is between ``low`` and ``high``.

    It does not hold if the whole interval is outside, or within ``margin`` of the bound: then any true effect is
    smaller than the smallest one that would count. Otherwise the runs do not decide it.
    """

    low: float = -math.inf
    high: float = math.inf
    margin: float = 0.0

    def verdict(self, interval: Interval) -> Verdict:
        """Apply the rule."""
        if self.low < interval.low and interval.high < self.high:
            return Verdict.HOLDS
        if interval.high < self.low + self.margin or interval.low > self.high - self.margin:
            return Verdict.FAILS
        return Verdict.UNDECIDED

    def describe(self, scale: float = 1.0, unit: str = "") -> str:
        """The rule in words, for values multiplied by ``scale``.

        Example:
            >>> Rule(low=0.0, margin=0.05).describe()
            'above 0 (does not hold below 0.05)'
            >>> Rule(-0.05, 0.05).describe(100, " %")
            'between −5 % and 5 %'
        """

        def text(value: float) -> str:
            return f"{number(scale * value)}{unit}"

        if math.isinf(self.low):
            bound, outside = f"below {text(self.high)}", f"above {text(self.high - self.margin)}"
        elif math.isinf(self.high):
            bound, outside = f"above {text(self.low)}", f"below {text(self.low + self.margin)}"
        else:
            return f"between {text(self.low)} and {text(self.high)}"
        return f"{bound} (does not hold {outside})" if self.margin else bound


def combine(verdicts: list[Verdict]) -> Verdict:
    """A claim holds if all its statistics do, and does not hold if any does not."""
    if Verdict.FAILS in verdicts:
        return Verdict.FAILS
    return Verdict.HOLDS if verdicts and set(verdicts) == {Verdict.HOLDS} else Verdict.UNDECIDED
