"""How much worse main may be than main alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from gradsurgery.lab.analysis.interval import Interval
from gradsurgery.lab.analysis.options import Option
from gradsurgery.lab.run import Setting


@dataclass(frozen=True)
class Allowance:
    """The largest excess of main over main alone that a recommendation accepts."""

    limit: float
    """0.02 for 2 %."""
    absolute: bool = False
    """Whether the limit is a difference rather than a fraction."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.limit) and self.limit >= 0):
            raise ValueError(f"the allowance for main must be a number of at least 0; got {self.limit}")

    def __str__(self) -> str:
        return f"{self.limit:g}" if self.absolute else f"{100 * self.limit:g} %"

    def is_covered(self, stopped: Mapping[str, Setting]) -> bool:
        """True if a run that was stopped early, for the allowance in its info, is beyond this one, too."""
        return stopped.get("absolute") == self.absolute and self.limit <= float(stopped.get("allow", -math.inf))

    def excess(self, option: Option) -> Interval:
        """How much worse main is than main alone, in the unit of the limit."""
        return option.main.excess(absolute=self.absolute)

    def permits(self, option: Option) -> bool:
        """True if main is within the allowance as a mean over seeds."""
        return self.excess(option).mean <= self.limit


DEFAULT = Allowance(0.02)
"""The allowance of a user who gives none."""
