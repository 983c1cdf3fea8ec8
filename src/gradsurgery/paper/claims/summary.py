"""The ledger in ten lines of words: what holds, what does not, and what is open, with the size of each effect."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradsurgery.lab.text import number
from gradsurgery.paper.claims.claim import Measurement, Result
from gradsurgery.paper.claims.rule import Verdict


@dataclass(frozen=True)
class Clause:
    """A claim in a few words."""

    id: str
    subject: str
    """Said once for all claims of a topic with the same subject and verdict."""
    rest: str
    numbers: tuple[str, ...] = ()
    """What each statistic is called where it is quoted; empty if none is worth it."""


def _leads(claim_id: str, where: str, rival: str = "") -> Clause:
    return Clause(claim_id, f"Bloop leads {rival}on", where, ("hypervolume", "main"))


def _alike(claim_id: str) -> Clause:
    numbers = ("PCGrad’s hypervolume", "PCGrad’s main", "DB’s hypervolume", "DB’s main")
    return Clause(claim_id, "PCGrad and DB", "are like mixed training", numbers)


SLOPES = ("slope of ‖g_main‖²", "of L_main")

TOPICS: dict[str, tuple[Clause, ...]] = {
    "The direction and its cost": (
        Clause("C1", "the full-batch direction", "has the length and the slope along g_main that the paper derives"),
        Clause("C2", "gradient noise", "turns its projection into mixed training"),
        Clause("C3", "a step", "takes hardly longer than one of mixed training", ("time",)),
    ),
    "Stationary points and rates": (
        Clause("C4", "Bloop comes to rest", "near stationary points of the bilevel problem only"),
        Clause("C5", "Bloop comes to rest", "near each of them"),
        Clause("C6", "with the EMA, main falls like T^(−1/4) or faster", "near a solution", SLOPES),
        Clause("C7", "without it,", "longer runs do not lower main", SLOPES),
        Clause("C8", "with the EMA, main falls like T^(−1/4) or faster", "from far away", SLOPES),
        Clause("C9", "where aux is −main,", "full-batch Bloop is gradient descent on main"),
    ),
    "Conditioning": (
        Clause("C10", "the condition number", "is 1 + 1/λ for the regularised problem, and 1/λ for Bloop"),
        Clause("C11", "Bloop", "reaches the bilevel solution for every λ, and the regularised problem does not"),
    ),
    "Smooth networks": (
        _leads("C12", "training data"),
        _leads("C13", "test data"),
        _alike("C14"),
        _leads("C15", "other images"),
    ),
    "Small weights": (
        _leads("C16", "training data"),
        _leads("C17", "test data"),
        _alike("C18"),
        _leads("C29", "other images"),
    ),
    "Two tasks": (
        _leads("C19", "Cifar10Mnist"),
        Clause(
            "C20",
            "Bloop’s front",
            "is that of mixed training where two datasets hardly conflict",
            ("lowest main", "lowest mean of main and aux"),
        ),
        _leads("C30", "pictures with other digits"),
    ),
    "A language model on two corpora": (
        _leads("C21", "training text"),
        _leads("C22", "held-out text"),
        Clause("C23", "its mixed loss", "is lower than mixed training’s for a small t", ("training", "held-out")),
        _alike("C28"),
        _leads("C31", "two other corpora"),
    ),
    "Translation on two corpora": (
        _leads("C24", "training text"),
        _leads("C25", "held-out text"),
        _alike("C35"),
    ),
    "The role of the EMA": (
        Clause("C26", "with ρ = 0.001 the average is stale,", "and both losses suffer", ("main", "aux")),
        Clause("C27", "with ρ = 0.9", "Bloop is like mixed training", ("main", "aux")),
    ),
    "Newer rivals": (
        _leads("C32", "small weights", "priority-constrained descent "),
        _leads("C33", "smooth networks", "priority-constrained descent "),
        _leads("C34", "small weights", "cautious weight decay "),
    ),
}
"""What the claims are about, nearly in the order of the paper; every claim has one topic."""

_LABELS = {
    Verdict.HOLDS: ("", ""),
    Verdict.FAILS: ("Does not hold: ", ""),
    Verdict.UNDECIDED: ("Open: ", "whether "),
    None: ("Not run yet: ", "whether "),
}
"""What a sentence about claims with this verdict begins with, and what stands before each subject."""


def largest_scale(by_scale: Mapping[str, Sequence[Result]]) -> dict[str, Result]:
    """Id -> the result of the claim at the largest scale that was run."""
    return {result.claim.id: result for results in by_scale.values() for result in results}


def summarise(latest: Mapping[str, Result]) -> dict[str, str]:
    """A line for each topic; a claim without a result is reported as not run."""
    return {topic: _line(clauses, latest) for topic, clauses in TOPICS.items()}


def _line(clauses: Sequence[Clause], latest: Mapping[str, Result]) -> str:
    sentences = []
    for verdict, (label, whether) in _LABELS.items():
        by_subject: dict[str, list[str]] = {}
        for clause in clauses:
            result = latest.get(clause.id)
            if (result and result.verdict) == verdict:
                by_subject.setdefault(clause.subject, []).append(f"{clause.rest} ({_evidence(clause, result)})")
        if by_subject:
            text = label + "; ".join(f"{whether}{subject} {_join(rests)}" for subject, rests in by_subject.items())
            sentences.append(f"{text[0].upper()}{text[1:]}.")
    return " ".join(sentences)


def _join(texts: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def _evidence(clause: Clause, result: Result | None) -> str:
    """The size of the effect, and the id of the claim."""
    if result is None:
        return clause.id
    so_far = "" if result.scale == list(result.claim.grids)[-1] else f"so far at {result.scale}"
    return "; ".join(filter(None, [_effect(clause, result), so_far, clause.id]))


def _effect(clause: Clause, result: Result) -> str:
    """The numbers behind the verdict: relative losses if the claim holds, otherwise what keeps it from holding."""
    if result.seeds < 2:
        return "too few seeds to compare"
    named = list(zip(clause.numbers, result.measurements, strict=bool(clause.numbers)))
    if result.verdict == Verdict.HOLDS:
        quoted = [pair for pair in named if pair[1].statistic.percent] or named
    else:
        quoted = [pair for pair in named if pair[1].verdict == result.verdict]
    return ", ".join(f"{name} {_size(measurement)}" for name, measurement in quoted)


def _size(measurement: Measurement) -> str:
    """The mean, with its sign; if it is undecided with its interval, which leaves it open."""
    if measurement.verdict == Verdict.UNDECIDED:
        return measurement.text
    factor, unit = (100, " %") if measurement.statistic.percent else (1, "")
    mean = number(factor * measurement.interval.mean, digits=2)
    return f"{'+' * (measurement.interval.mean > 0)}{mean}{unit}"
