"""The answer on top of a report and of an index: which method and λ to use, for a few allowances."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gradsurgery.lab.analysis import (
    DEFAULT,
    SPLITS,
    Advice,
    Allowance,
    advise,
    collect_options,
    describe_changes,
    level_costs,
    main_alone,
)
from gradsurgery.lab.reports.style import Look, look
from gradsurgery.lab.run import RunRecord

ALLOWANCES = tuple(map(Allowance, (0.01, 0.02, 0.05, 0.1)))
"""One is open, the others are folded."""


@dataclass(frozen=True)
class Answer:
    """What to train with for one allowance, ready for a template."""

    allowance: str
    code: str
    """Code to paste; empty to train on main alone."""
    provisional: str
    """Why more runs may change the answer; empty if there is no reason."""
    change: str
    """What it costs main and gains in aux."""
    verdict: str
    others: list[tuple[Look, str]]
    """The best λ of each other method, in a sentence."""
    hints: Sequence[str]
    losses: Sequence[str]
    """All losses or metrics, main's first."""
    costs: list[tuple[Look, str, Sequence[str]]]
    """What each λ of an auxiliary loss below the first changes, by loss; empty if there is one auxiliary loss."""


@dataclass(frozen=True)
class Answers:
    """The answers for all allowances, or the reason why there is none."""

    by_allowance: Sequence[Answer] = ()
    main: str = ""
    """What is limited: main's loss or metric."""
    data: str = ""
    """What is compared."""
    reason: str = ""


def page_answers(records: Sequence[RunRecord], first: Allowance = DEFAULT) -> Answers | None:
    """The answers for a page; None for runs without main alone, for which nobody expects one.

    Args:
        records: the runs.
        first: the allowance whose answer is open.
    """
    try:
        options = collect_options(records)
        return write_answers([advise(options, each) for each in dict.fromkeys((first, *ALLOWANCES))])
    except ValueError as error:
        has_main_alone = any(main_alone(records, split) for split in SPLITS)
        return Answers(reason=str(error)) if has_main_alone else None


def write_answers(advice: Sequence[Advice]) -> Answers:
    """The answers for some allowances of the same runs, at least one."""
    criteria = advice[0].options.criteria
    return Answers(list(map(_answer, advice)), criteria.main.name, criteria.data)


def _answer(advice: Advice) -> Answer:
    best = advice.best
    methods = [each.method for each in advice.recommendations]
    return Answer(
        allowance=keep_together(str(advice.allowance)),
        code=best.code if best else "",
        provisional=describe_provisional(advice),
        change=keep_together(describe_gain(advice)),
        verdict=keep_together(advice.verdict.text),
        others=[
            (look(each.method, methods), keep_together(each.text))
            for each in advice.recommendations
            if each is not best
        ],
        hints=advice.hints,
        losses=[objective.name for objective in advice.options.criteria.objectives],
        costs=[
            (
                look(cost.option.method, methods),
                keep_together(cost.name),
                [change.describe() for change in cost.changes],
            )
            for cost in level_costs(advice)
        ],
    )


def describe_gain(advice: Advice) -> str:
    """What the recommended method costs main and gains in aux; or that main alone is best."""
    best, criteria = advice.best, advice.options.criteria
    main, aux = criteria.main.name, criteria.aux.name
    if best is None or best.main is None or best.aux is None:
        name = advice.options.lam_name
        return f"Train on main alone: no {name} improves {aux} if {main} may be {advice.allowance} worse."
    seeds = "one seed" if best.seeds == 1 else f"{best.seeds} seeds, 95 % intervals"
    changes = describe_changes((best.main, best.aux, *best.lower), absolute=advice.allowance.absolute)
    in_doubt = not (best.certain or best.seeds == 1 or advice.verdict.text)
    doubt = f"; {main} may be beyond the allowance" if in_doubt else ""
    return f"Against main alone: {changes} ({seeds}){doubt}."


def describe_provisional(advice: Advice) -> str:
    """A sentence on why more runs may change the answer; empty if there is no reason."""
    return f"Provisional: {advice.provisional}." if advice.provisional else ""


def keep_together(text: str) -> str:
    """The text with no line break between a number and its sign or unit, nor within an interval."""
    text = re.sub(r" ([%±=→]) ?", lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    return re.sub(r"\[[^\]]*\]", lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
