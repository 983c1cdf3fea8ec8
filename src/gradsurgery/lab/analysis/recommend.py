"""Recommend a λ: the one with the best aux whose main stays within an allowance of training on main alone.

A λ that makes aux worse than main alone does is never recommended. Of several auxiliary losses, the first has the say:
among the options whose first is within the same allowance of the best one's, the second decides, and so on.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import gradsurgery as gs
from gradsurgery.lab.analysis.allowance import Allowance
from gradsurgery.lab.analysis.change import Change
from gradsurgery.lab.analysis.hints import hints
from gradsurgery.lab.analysis.options import Option, Options
from gradsurgery.lab.analysis.verdict import Verdict, compare_best, describe_seeds
from gradsurgery.lab.lam import Lam, Weight, lam_arguments, lam_names, lam_number
from gradsurgery.lab.run import Setting
from gradsurgery.lab.text import write_setting


@dataclass(frozen=True)
class Recommendation:
    """The λ and ρ to use with one method. They and both changes are None if no λ can be recommended."""

    method: str
    lam: Lam | None
    """A number, ``gs.relative`` of one, a tuple of these for several auxiliary losses, or a ``Tau``."""
    rho: float | None
    split: str
    """Whether losses are on ``test`` or ``train`` data."""
    seeds: int
    """How many seeds were compared."""
    main: Change | None
    aux: Change | None
    certain: bool
    """Whether the 95 % interval of main is within the allowance; False for a single seed."""
    text: str
    """One sentence, such as ``bloop, λ = 0.3: main +1.4 % [+0.9, +1.9], aux −38.0 % [−40.1, −35.8]``."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Those in which the runs differ, such as the learning rate."""
    lower: tuple[Change, ...] = ()
    """Of the auxiliary losses below the first."""

    @property
    def code(self) -> str:
        """The method as code to paste, such as ``gs.bloop(lam=gs.relative(0.65), rho=0.01)``; empty without one."""
        if self.aux is None:
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
    verdict: Verdict
    hints: tuple[str, ...]
    options: Options
    """What it was chosen from."""

    @property
    def best(self) -> Recommendation | None:
        """The recommendation with the best aux; None to train main alone."""
        first = self.recommendations[0]
        return first if first.aux is not None else None

    @property
    def provisional(self) -> str:
        """Why more runs may change the answer: one seed, or runs that are still to come; empty if complete."""
        reasons = ["one seed does not tell the spread"] if self.best is not None and self.best.seeds == 1 else []
        if left := self.options.unfinished:
            reasons.append(f"{left} run{'s are' if left > 1 else ' is'} still to come")
        if stopped := sum(not self.allowance.is_covered(info) for info in self.options.stopped):
            reasons.append(f"{stopped} run{'s' * (stopped > 1)} stopped early for another allowance")
        return ", and ".join(reasons)


def advise(options: Options, allowance: Allowance) -> Advice:
    """The recommendation of each method, which of them wins, and hints for a better sweep."""
    all_options = [option for candidates in options.by_method.values() for option in candidates]
    if any(math.isnan(allowance.excess(option).mean) for option in all_options):
        name = options.criteria.main.name
        raise ValueError(f"main alone ends with {name} = 0, so the allowance must be a difference, such as 0.01")
    within = {method: _helpful_within(candidates, allowance) for method, candidates in options.by_method.items()}
    best = _choose([option for candidates in within.values() for option in candidates], allowance)
    chosen: dict[str, Option] = {}
    recommendations = []
    for method, candidates in options.by_method.items():
        if own := best if best and best.method == method else _choose(within[method], allowance):
            chosen[method] = own
            recommendations.append(_recommend(chosen[method], options.criteria.split, allowance))
        else:
            text = _describe_none(method, candidates, allowance, options)
            recommendations.append(
                Recommendation(method, None, None, options.criteria.split, 0, None, None, False, text)
            )
    recommendations.sort(key=lambda each: _mean_excess(chosen[each.method]) if each.method in chosen else math.inf)
    recommendations.sort(
        key=lambda each: chosen.get(each.method) is not best
    )  # first, even if it gave up some aux for the second
    verdict = _judge(options, recommendations, chosen, allowance)
    return Advice(allowance, tuple(recommendations), verdict, tuple(hints(options, best)), options)


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
    return Recommendation(
        option.method,
        option.lam,
        option.rho,
        split,
        main.seeds,
        main,
        aux,
        certain,
        text,
        option.settings,
        option.lower,
    )


def _judge(
    options: Options, recommendations: Sequence[Recommendation], chosen: Mapping[str, Option], allowance: Allowance
) -> Verdict:
    first, main, aux = recommendations[0], options.criteria.main.name, options.criteria.aux.name
    lead = f"Undecided: {first.method} has the best {aux}, but"
    if len(recommendations) < 2 or first.seeds == 1:
        return Verdict()
    if not chosen:
        return Verdict(f"No method improves {aux} within the allowance: train on main alone.")
    if not options.seeds_differ:
        return Verdict(f"{lead} all seeds gave the same numbers.")
    if not first.certain:
        needed = chosen[first.method].main.seeds_within(allowance.limit, absolute=allowance.absolute)
        text = f"{lead} its {main} may be beyond the allowance. {describe_seeds(needed)}"
        return Verdict(text, seeds_needed=needed)
    rivals = {
        method: [option for option in candidates if allowance.excess(option).low <= allowance.limit]
        for method, candidates in options.by_method.items()
        if method != first.method
    }
    own = _helpful_within(options.by_method[first.method], allowance)
    return compare_best(chosen[first.method], own, rivals, allowance)


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
