"""Stop runs that no recommendation can choose: main is too far above main alone to come back within the allowance.

    excess(step) = main / (main alone at the same step and seed) - 1
    low(step)    = the least excess in the last fifth of the training, of five rows at least

A run is stopped after a fifth of its training, or later, if

    low(step) > 2 allowance + 2 fall(step),     fall(step) = the largest low(step) - excess(end) of a finished run:

it is beyond twice the allowance even if it comes back twice as far as any run before. A λ is not trained if a smaller
one, or the same with another seed, ends above 2 allowance + 2 dip, where dip is the largest amount by which a finished
run ended below one with a smaller λ, or with the same. Both wait for three finished runs of the same variant.

The least excess rather than the last: curves on small data are noisy. Twice rather than once, and three runs first: on
stored curves of six problems, no run that ended within 1, 2, 5 or 10 % was stopped or left out.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from gradsurgery.lab.analysis.allowance import Allowance
from gradsurgery.lab.analysis.series import is_main_alone
from gradsurgery.lab.analysis.variant import variant_of
from gradsurgery.lab.lam import lam_number
from gradsurgery.lab.objective import Objective
from gradsurgery.lab.run import Metrics, RunRecord, RunSpec, Setting
from gradsurgery.lab.text import number

FIFTH = 0.2
"""A run is judged after this fraction of its training, by as long a piece of its curve."""
MIN_ROWS = 5
MIN_FINISHED = 3
SAFETY = 2.0
_CHECKS = 20
"""How often a run is judged: to look at long curves after every row could take longer than training."""


@dataclass(eq=False)
class _Curve:
    """Main by step, of one run."""

    spec: RunSpec
    by_metric: dict[str, dict[float, float]]
    is_done: bool = False
    least: float = -math.inf
    """For a run that was stopped, the least excess that it would have ended with."""
    excess: dict[float, float] = field(default_factory=dict)
    """Over main alone, once both are done."""

    def __post_init__(self) -> None:
        self.variant = variant_of(self.spec)
        self.lam = 0.0 if self.spec.lam is None else lam_number(self.spec.lam)

    def add(self, row: Metrics) -> None:
        for name, curve in self.by_metric.items():
            if math.isfinite(row.get(name, math.nan)):
                curve[row["step"]] = row[name]

    @property
    def main(self) -> dict[float, float]:
        """By the first metric that the run has."""
        return next(filter(None, self.by_metric.values()), {})


class Stopping:
    """Judges runs by the curves of the others.

    Args:
        allowance: how much worse main may be than main alone.
        records: the runs that are stored already.
        objective: what main is judged by; None for the held-out loss, or else the training loss.
    """

    def __init__(
        self, allowance: Allowance, records: Iterable[RunRecord] = (), objective: Objective | None = None
    ) -> None:
        self.allowance = allowance
        self._metrics = [objective.metric] if objective else ["main_test", "main_train"]
        self._sign = objective.sign if objective else 1
        self._curves: dict[str, _Curve] = {}
        for record in records:
            curve = self._curve(record.spec)
            curve.is_done = record.status == "done"
            for row in record.metrics:
                curve.add(row)

    @property
    def info(self) -> dict[str, Setting]:
        """The allowance, for the record of a stopped run."""
        return {"allow": self.allowance.limit, "absolute": self.allowance.absolute}

    def finish(self, run: RunSpec) -> None:
        """Remember that a run is done."""
        self._curve(run).is_done = True

    def judge(self, run: RunSpec, row: Metrics) -> str | None:
        """Remember the next row of a run, and return the reason to stop it, if there is one."""
        curve = self._curve(run)
        before = max(curve.main, default=0.0)
        curve.add(row)
        step, end = row["step"], max(self._alone(run), default=0.0)
        if is_main_alone(run) or not FIFTH * end <= step < end:
            return None
        is_due = math.floor(_CHECKS * step / end) > math.floor(_CHECKS * before / end)
        if not is_due or len(self._finished(run)) < MIN_FINISHED:
            return None
        low = self._low(curve, step)
        fall = max(self._low(other, step) - self._low(other, math.inf) for other in self._finished())
        least = low - SAFETY * max(fall, 0.0)
        if least <= SAFETY * self.allowance.limit:
            return None
        curve.least = least
        excess = number(low) if self.allowance.absolute else f"{100 * low:.3g} %"
        return f"main was {excess} worse than main alone after {step / end:.0%} of the training: too far to come back"

    def rule_out(self, run: RunSpec) -> str | None:
        """The reason not to train a run at all, if there is one."""
        if is_main_alone(run) or run.lam is None or len(self._finished(run)) < MIN_FINISHED:
            return None
        limit = SAFETY * (self.allowance.limit + self._dip())
        for curve in self._curves.values():
            if curve.variant == variant_of(run) and curve.lam <= lam_number(run.lam):
                least = self._low(curve, math.inf) if curve.is_done and self._excess(curve) else curve.least
                if least > limit:
                    return f"main is much worse than main alone with {run.lam_name} = {number(curve.lam)} already"
        return None

    def _dip(self) -> float:
        """How far a finished run ended below another of its variant with a smaller λ, or with the same, at most."""
        ends = [(curve, self._low(curve, math.inf)) for curve in self._finished()]
        return max(
            end - other
            for curve, end in ends
            for larger, other in ends
            if curve.lam <= larger.lam and curve.variant == larger.variant
        )

    def _curve(self, run: RunSpec) -> _Curve:
        return self._curves.setdefault(run.key, _Curve(run, {name: {} for name in self._metrics}))

    def _alone(self, run: RunSpec) -> dict[float, float]:
        """Main of main alone with the same seed; empty until it is done."""
        for curve in self._curves.values():
            spec = curve.spec
            if curve.is_done and is_main_alone(spec) and (spec.seed, spec.settings) == (run.seed, run.settings):
                return curve.main
        return {}

    def _finished(self, run: RunSpec | None = None) -> list[_Curve]:
        """Runs that are done and can be compared with main alone; only those of the same variant as ``run``."""
        return [
            curve
            for curve in self._curves.values()
            if curve.is_done
            and not is_main_alone(curve.spec)
            and (run is None or curve.variant == variant_of(run))
            and self._excess(curve)
        ]

    def _excess(self, curve: _Curve) -> dict[float, float]:
        """By step: how far main is above main alone, in the unit of the allowance."""
        if curve.excess:
            return curve.excess
        alone = self._alone(curve.spec)
        units = {step: 1.0 if self.allowance.absolute else abs(alone[step]) for step in curve.main if alone.get(step)}
        excess = {step: self._sign * (curve.main[step] - alone[step]) / unit for step, unit in units.items()}
        if curve.is_done:
            curve.excess = excess
        return excess

    def _low(self, curve: _Curve, step: float) -> float:
        """The least excess in the last fifth before a step; for infinity, the last excess of all."""
        excess = self._excess(curve)
        if step == math.inf:
            return excess[max(excess)]
        before = [each for each in sorted(excess) if each <= step]
        recent = [each for each in before if each > step - FIFTH * max(self._alone(curve.spec))]
        rows = recent if len(recent) >= MIN_ROWS else before[-MIN_ROWS:]
        return min((excess[each] for each in rows), default=-math.inf)
