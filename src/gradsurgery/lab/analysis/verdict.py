"""Which method wins, decided so that identical methods "win" in at most 5 % of cases.

Methods are compared paired by seed, on the ratio of their aux. The best λ of a method is a choice among many, and the
best of many noisy numbers is good by chance. So a method wins only if

- its recommended option has a better aux than *every* option of every other method that may keep main within the
  allowance, not only than the recommended one; and
- each of these intervals has confidence 1 - 0.05 / n, where n is the number of its own options that are not certainly
  worse than the recommended one (Bonferroni).
"""

from collections.abc import Sequence

from gradsurgery.lab.analysis.allowance import Allowance
from gradsurgery.lab.analysis.change import Change
from gradsurgery.lab.analysis.interval import CONFIDENCE, MAX_SEEDS
from gradsurgery.lab.analysis.options import Option


def compare_best(best: Option, own: Sequence[Option], rivals: Sequence[Option], allowance: Allowance) -> str:
    """Whether the best option of one method beats all options of the others.

    Args:
        best: the recommended option of the method with the best aux.
        own: all options of that method within the allowance, with ``best``.
        rivals: the options of the other methods that may be within the allowance.
        allowance: the allowance.
    """
    name = best.aux.objective.name
    against = [(option, best.aux.against(option.aux)) for option in rivals]
    if not against:
        return f"{best.method} wins: no other method keeps main within the allowance."
    if any(change.seeds < 2 for _, change in against):
        return f"Undecided: {best.method} has the best {name}, but shares fewer than two seeds with the others."
    contenders = [option for option in own if option is not best and not best.aux.against(option.aux).is_better()]
    confidence = 1 - (1 - CONFIDENCE) / (1 + len(contenders))
    closest, change = max(against, key=lambda item: item[1].effect(confidence).high)
    comparison = f"its {name} against {closest.name}: {change.describe()}"
    if all(change.is_better(confidence) for _, change in against):
        return f"{best.method} wins ({comparison})."
    needed = [_seeds_to_decide(option, change, confidence, allowance) for option, change in against]
    seeds = None if None in needed else max(filter(None, needed))
    return f"Undecided between {best.method} and {closest.method} ({comparison}). {describe_seeds(seeds)}"


def _seeds_to_decide(rival: Option, change: Change, confidence: float, allowance: Allowance) -> int | None:
    """How many seeds would tell that the rival has a worse aux or, if it has a better one, where its main is."""
    if change.effect().mean <= 0:
        return change.seeds_to_decide(confidence)
    return rival.main.seeds_within(allowance.limit, absolute=allowance.absolute)


def describe_seeds(seeds: int | None) -> str:
    """How many seeds would decide; None for too many."""
    return f"{f'More than {MAX_SEEDS}' if seeds is None else f'About {seeds}'} seeds would decide."
