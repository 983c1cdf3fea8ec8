"""Recommend a λ: the one with the lowest aux whose main stays within an allowance of training on main alone."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradsurgery.lab.lam import Lam
from gradsurgery.lab.reports.options import Change, Option, collect_options
from gradsurgery.lab.run import RunRecord


@dataclass(frozen=True)
class Recommendation:
    """The λ and ρ to use with one method. They and both changes are None if no λ keeps main within the allowance."""

    method: str
    lam: Lam | None
    """What the method takes: a number, or ``gs.relative`` of one."""
    rho: float | None
    split: str
    """Whether losses are on ``test`` or ``train`` data."""
    seeds: int
    """How many seeds were compared."""
    main: Change | None
    aux: Change | None
    certain: bool
    """Whether main stays within the allowance by more than the standard error over seeds; False for a single seed."""
    text: str
    """One sentence, such as ``bloop, λ = 0.3: main +1.4 %, aux −38.0 %``."""


def recommend(records: Iterable[RunRecord], allow: float = 0.02, *, absolute: bool = False) -> list[Recommendation]:
    """For each method, the λ and ρ with the lowest aux among those whose main stays within the allowance.

    Args:
        records: runs of one problem, scale and settings; main alone (``mixed`` with λ = 0) is among them.
        allow: how much worse main may be than main alone: 0.02 for 2 %.
        absolute: whether ``allow`` is a difference of losses rather than a fraction.

    Returns:
        One recommendation for each method, in the order of their aux, the lowest first.
    """
    if not (math.isfinite(allow) and allow >= 0):
        raise ValueError(f"the allowance for main is a number of at least 0, but got {allow}")
    options = collect_options(records)
    all_options = [option for candidates in options.by_method.values() for option in candidates]
    if not absolute and any(option.main.alone == 0 for option in all_options):
        raise ValueError("main alone ends with a main loss of 0, so the allowance must be a difference of losses")
    recommendations = []
    for method, candidates in options.by_method.items():
        within = [option for option in candidates if option.excess(absolute=absolute) <= allow]
        if within:
            best = min(within, key=_aux_difference)
            certain = best.safe_excess(absolute=absolute) <= allow
            text = best.describe(absolute=absolute) + ("" if certain else f" ({best.caveat})")
            recommendations.append(_recommend(best, options.split, certain, text))
        else:
            text = describe_excess(method, candidates, absolute=absolute)
            recommendations.append(Recommendation(method, None, None, options.split, 0, None, None, False, text))
    return sorted(recommendations, key=_aux_difference)


def describe_excess(method: str, candidates: Sequence[Option], *, absolute: bool = False) -> str:
    """A sentence for a method whose main is beyond the allowance with every option."""
    if not candidates:
        return f"{method}: nothing to compare, as its runs diverged, failed or have other seeds than main alone"
    closest = min(candidates, key=lambda option: option.main.difference)
    main = f"main {closest.main.describe(absolute=absolute)}"
    if closest.lam is None:
        return f"{method}: {main} is beyond the allowance"
    return f"{method}: no λ keeps main within the allowance (closest: {closest.hyperparameters}, {main})"


def verdict(recommendations: Sequence[Recommendation]) -> str:
    """Which method wins, or why that is undecided; empty for fewer than two methods.

    A method wins if its main is certain to be within the allowance, and its aux is lower than that of the next method
    by more than the standard deviation of either over seeds.
    """
    within = [recommendation for recommendation in recommendations if recommendation.aux is not None]
    if len(recommendations) < 2:
        return ""
    if not within:
        return "No method keeps main within the allowance."
    first = within[0]
    if first.seeds == 1:
        return f"Undecided: {first.method} has the lowest aux, but one seed does not tell its spread."
    if not first.certain:
        return f"Undecided: {first.method} has the lowest aux, but its main may be beyond the allowance."
    if len(within) == 1:
        return f"{first.method} wins: no other method keeps main within the allowance."
    second = within[1]
    assert first.aux is not None
    assert second.aux is not None
    gap = second.aux.difference - first.aux.difference
    if gap > max(first.aux.deviation, second.aux.deviation):
        return f"{first.method} wins: its aux is lower than that of {second.method} by more than the spread over seeds."
    return (
        f"Undecided between {first.method} and {second.method}: the difference in aux is within the spread over seeds."
    )


def _recommend(option: Option, split: str, certain: bool, text: str) -> Recommendation:
    fields = option.method, option.lam, option.rho, split, option.seeds, option.main, option.aux
    return Recommendation(*fields, certain, text)


def _aux_difference(option: Option | Recommendation) -> float:
    return math.inf if option.aux is None else option.aux.difference
