"""The answer on top of a report and of an index: which method and λ to use, for a few allowances."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from gradsurgery.lab.analysis.allowance import DEFAULT, Allowance
from gradsurgery.lab.analysis.options import collect_options
from gradsurgery.lab.analysis.recommend import Advice, advise
from gradsurgery.lab.analysis.series import SPLITS, main_alone
from gradsurgery.lab.run import RunRecord

ALLOWANCES = tuple(map(Allowance, (0.01, 0.02, 0.05, 0.1)))
"""One is open, the others are folded."""


@dataclass(frozen=True)
class Answers:
    """What to train with for some allowances, or the reason why there is no answer."""

    by_allowance: Sequence[Advice] = ()
    """The first is open."""
    reason: str = ""


def page_answers(records: Sequence[RunRecord], first: Allowance = DEFAULT) -> Answers | None:
    """The answers for a page, with that for the allowance ``first`` open; None for runs without main alone."""
    try:
        options = collect_options(records)
        answer = advise(options, first)
    except ValueError as error:
        has_main_alone = any(main_alone(records, split) for split in SPLITS)
        return Answers(reason=str(error)) if has_main_alone else None
    others: list[Advice] = []
    with suppress(ValueError):  # where main alone ends with 0, these fractions mean nothing
        others = [advise(options, each) for each in ALLOWANCES if each != first]
    return Answers([answer, *others])
