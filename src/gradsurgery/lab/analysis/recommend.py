"""Recommend a λ: the one with the best aux whose main stays within an allowance of training on main alone.

A λ that makes aux worse than main alone does is never recommended. Of several auxiliary losses, the first has the say:
among the options whose first is within the same allowance of the best one's, the second decides, and so on.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import gradsurgery as gs
from gradsurgery.lab.analysis.allowance import DEFAULT, Allowance
from gradsurgery.lab.analysis.change import Change
from gradsurgery.lab.analysis.hints import hints
from gradsurgery.lab.analysis.options import Option, Options, collect_options, describe_changes
from gradsurgery.lab.analysis.verdict import compare_best, describe_seeds
from gradsurgery.lab.lam import Lam, Weight, lam_arguments, lam_names, lam_number
from gradsurgery.lab.notebook import Recommendations
from gradsurgery.lab.objective import judge_by, read_objectives
from gradsurgery.lab.run import RunRecord, Setting
from gradsurgery.lab.text import write_setting


@dataclass(frozen=True)
class Recommendation:
    """The λ and ρ to use with one method. They and both changes are None if no λ can be recommended."""

    method: str
    text: str
    """One sentence, such as ``bloop, λ = 0.3: main +1.4 % [+0.9, +1.9], aux −38.0 % [−40.1, −35.8]``."""
    split: str
    """Whether losses are on ``test`` or ``train`` data."""
    option: Option | None = None
    """What it recommends."""
    certain: bool = False
    """Whether the 95 % interval of main is within the allowance; False for a single seed."""

    @property
    def lam(self) -> Lam | None:
        """A number, ``gs.relative`` of one, a tuple of these for several auxiliary losses, or a ``Tau``."""
        return self.option.lam if self.option else None

    @property
    def rho(self) -> float | None:
        """The speed of the moving average."""
        return self.option.variant.rho if self.option else None

    @property
    def seeds(self) -> int:
        """How many seeds were compared."""
        return self.option.main.seeds if self.option else 0

    @property
    def main(self) -> Change | None:
        """Main against main alone."""
        return self.option.main if self.option else None

    @property
    def aux(self) -> Change | None:
        """The first auxiliary loss against that of main alone."""
        return self.option.aux if self.option else None

    @property
    def lower(self) -> tuple[Change, ...]:
        """The auxiliary losses below the first."""
        return self.option.changes[2:] if self.option else ()

    @property
    def settings(self) -> Mapping[str, Setting]:
        """Those in which the runs differ, such as the learning rate."""
        return self.option.settings if self.option else {}

    @property
    def code(self) -> str:
        """The method as code to paste, such as ``gs.bloop(lam=gs.relative(0.65), rho=0.01)``; empty without one."""
        if self.option is None:
            return ""
        package = "gs." if self.method in gs.METHODS else ""
        arguments = {name: _code(value) for name, value in lam_arguments(self.lam).items()}
        arguments |= {} if self.rho is None else {"rho": f"{self.rho}"}
        settings = ", ".join(f"{name} = {write_setting(value)}" for name, value in self.settings.items())
        comment = f"  # with {settings}" if settings else ""
        return f"{package}{self.method}({', '.join(f'{name}={value}' for name, value in arguments.items())}){comment}"


@dataclass(frozen=True)
class Advice:
    """What to train with if main may be worse than main alone by an allowance."""

    allowance: Allowance
    recommendations: tuple[Recommendation, ...]
    """One for each method, the best aux first, those without a λ last."""
    verdict: str
    """Which method wins, or why that is undecided; empty for fewer than two methods, or for one seed."""
    hints: tuple[str, ...]
    options: Options
    """What it was chosen from."""

    @property
    def best(self) -> Recommendation | None:
        """The recommendation with the best aux; None to train main alone."""
        first = self.recommendations[0]
        return first if first.option else None

    @property
    def provisional(self) -> str:
        """Why more runs may change the answer: one seed, or runs that are still to come; empty if complete."""
        reasons = ["one seed does not tell the spread"] if self.best is not None and self.best.seeds == 1 else []
        if left := self.options.unfinished:
            reasons.append(f"{left} run{'s are' if left > 1 else ' is'} still to come")
        if stopped := sum(not self.allowance.is_covered(info) for info in self.options.stopped):
            reasons.append(f"{stopped} run{'s' * (stopped > 1)} stopped early for another allowance")
        return ", and ".join(reasons)

    @property
    def gain(self) -> str:
        """What the recommended method costs main and gains in aux; or that main alone is best."""
        criteria, option = self.options.criteria, self.recommendations[0].option
        if option is None:
            none = f"no {self.options.lam_name} improves {criteria.aux.name}"
            return f"Train on main alone: {none} if {criteria.main.name} may be {self.allowance} worse."
        seeds = "one seed" if option.main.seeds == 1 else f"{option.main.seeds} seeds, 95 % intervals"
        changes = describe_changes(option.changes, absolute=self.allowance.absolute)
        in_doubt = not (self.recommendations[0].certain or option.main.seeds == 1 or self.verdict)
        doubt = f"; {criteria.main.name} may be beyond the allowance" if in_doubt else ""
        return f"Against main alone: {changes} ({seeds}){doubt}."


def advise(options: Options, allowance: Allowance) -> Advice:
    """The recommendation of each method, which of them wins, and hints for a better sweep."""
    all_options = [option for candidates in options.by_method.values() for option in candidates]
    if any(math.isnan(allowance.excess(option).mean) for option in all_options):
        name = options.criteria.main.name
        raise ValueError(f"main alone ends with {name} = 0, so the allowance must be a difference, such as 0.01")
    within = {method: _helpful_within(candidates, allowance) for method, candidates in options.by_method.items()}
    best = _choose([option for candidates in within.values() for option in candidates], allowance)
    recommendations = []
    for method, candidates in options.by_method.items():
        option = best if best and best.method == method else _choose(within[method], allowance)
        if option:
            recommendations.append(_recommend(option, options.criteria.split, allowance))
        else:
            text = _describe_none(method, candidates, allowance, options)
            recommendations.append(Recommendation(method, text, options.criteria.split))

    def place(each: Recommendation) -> tuple[bool, float]:
        # the best is first even if it gave up some aux for the second
        return each.option is not best, _mean_excess(each.option) if each.option else math.inf

    recommendations.sort(key=place)
    verdict = _judge(options, within, recommendations, allowance)
    return Advice(allowance, tuple(recommendations), verdict, tuple(hints(options, best)), options)


def recommend(
    records: Iterable[RunRecord],
    allow: float = DEFAULT.limit,
    *,
    absolute: bool = False,
    maximise: Mapping[str, str] | None = None,
    minimise: Mapping[str, str] | None = None,
) -> list[Recommendation]:
    """For each method, the λ and ρ with the best aux among those whose main stays within the allowance.

    Both are judged by the held-out losses if there are any, or by the metrics that ``@lab.problem`` names.

    Args:
        records: runs of one problem and scale; main alone (``mixed`` with λ = 0) is among them. If they have several
            settings, such as learning rates, one of them is recommended too, and compared with the best main alone.
        allow: how much worse main may be than main alone: 0.02 for 2 %.
        absolute: whether ``allow`` is a difference rather than a fraction.
        maximise: metrics to judge by instead of those of the problem, such as ``{"main": "accuracy_test"}``.
        minimise: the same for metrics of which less is better.

    Returns:
        One recommendation for each method, in the order of their aux, the best first. A notebook shows the best as
        code.
    """
    named = read_objectives(maximise, minimise)
    advice = advise(collect_options(judge_by(named, records) if named else records), Allowance(allow, absolute))
    return Recommendations(advice.recommendations, advice)


def _recommend(option: Option, split: str, allowance: Allowance) -> Recommendation:
    main, aux = option.main, option.aux
    certain = main.seeds > 1 and allowance.excess(option).high <= allowance.limit
    caveat = ""
    if main.seeds == 1:
        caveat = " (one seed: no verdict)"
    elif not certain:
        caveat = f" ({main.objective.name} may be beyond the allowance)"
    elif not aux.is_better():
        caveat = f" ({aux.objective.name} may not be better)"
    text = option.describe(absolute=allowance.absolute) + caveat
    return Recommendation(option.method, text, split, option, certain)


def _judge(
    options: Options,
    within: Mapping[str, Sequence[Option]],
    recommendations: Sequence[Recommendation],
    allowance: Allowance,
) -> str:
    first, main, aux = recommendations[0], options.criteria.main.name, options.criteria.aux.name
    lead = f"Undecided: {first.method} has the best {aux}, but"
    if len(recommendations) < 2 or first.seeds == 1:
        return ""
    if first.option is None:
        return f"No method improves {aux} within the allowance: train on main alone."
    if not options.seeds_differ:
        return f"{lead} all seeds gave the same numbers."
    if not first.certain:
        needed = first.option.main.seeds_within(allowance.limit, absolute=allowance.absolute)
        return f"{lead} its {main} may be beyond the allowance. {describe_seeds(needed)}"
    rivals = [
        option
        for method, candidates in options.by_method.items()
        for option in candidates
        if method != first.method and allowance.excess(option).low <= allowance.limit
    ]
    return compare_best(first.option, within[first.method], rivals, allowance)


def _helpful_within(candidates: Iterable[Option], allowance: Allowance) -> list[Option]:
    """The options that improve aux, with main within the allowance, as means over seeds."""
    return [option for option in candidates if _mean_excess(option) < 0 and allowance.permits(option)]


def _choose(candidates: Sequence[Option], allowance: Allowance) -> Option | None:
    """The option with the best aux; of those within the allowance of it, that with the best second aux, and so on."""
    best = None
    for level in range(1, len(candidates[0].changes) if candidates else 0):
        best = leader = min(candidates, key=lambda option, level=level: _mean_excess(option, level))  # type: ignore[misc]
        candidates = [option for option in candidates if option is leader or _is_near(option, leader, level, allowance)]
    return best


def _is_near(option: Option, best: Option, level: int, allowance: Allowance) -> bool:
    change = option.changes[level].against(best.changes[level])
    return change.seeds > 0 and change.excess(absolute=allowance.absolute).mean <= allowance.limit


def _mean_excess(option: Option, level: int = 1) -> float:
    """How much worse an auxiliary loss is than that of main alone, as a mean difference."""
    return option.changes[level].excess(absolute=True).mean


def _describe_none(method: str, candidates: Sequence[Option], allowance: Allowance, options: Options) -> str:
    """A sentence for a method without a recommendation."""
    main, aux = options.criteria.main.name, options.criteria.aux.name
    name = lam_names(options.tried.get(method, ()))
    if not candidates:
        return (
            f"{method}: nothing to compare, as its runs diverged, failed, stopped or have other seeds than main alone"
        )
    if within := [option for option in candidates if allowance.permits(option)]:
        closest = min(within, key=_mean_excess)
        has_lam = closest.lam is not None
        reason = f"no {name} within the allowance improves {aux}" if has_lam else f"does not improve {aux}"
        change = f"{aux} {closest.aux.describe()}"
    else:
        closest = min(candidates, key=lambda option: allowance.excess(option).mean)
        has_lam = closest.lam is not None
        reason = f"no {name} keeps {main} within the allowance" if has_lam else f"{main} is beyond the allowance"
        change = f"{main} {closest.main.describe(absolute=allowance.absolute)}"
    details = f"closest: {closest.hyperparameters}, {change}" if closest.hyperparameters else change
    return f"{method}: {reason} ({details})"


def _code(lam: Weight | tuple[Weight, ...]) -> str:
    """λ or τ as code, with three significant digits: those of a logarithmic grid have sixteen."""
    if isinstance(lam, tuple):
        return f"({', '.join(map(_code, lam))})"
    value = float(f"{lam_number(lam):.3g}")
    return f"gs.relative({value})" if isinstance(lam, gs.relative) else f"{value}"
