"""How results are written, the same in the terminal, in Markdown and in HTML."""

from collections.abc import Sequence

from gradsurgery.paper.claims.claim import Measurement, Result, Statistic
from gradsurgery.paper.claims.rule import Verdict


def count_verdicts(results: Sequence[Result]) -> str:
    """How many claims have each verdict, for example ``holds: 15, does not hold: 2, undecided: 9``."""
    return ", ".join(f"{verdict}: {sum(result.verdict == verdict for result in results)}" for verdict in Verdict)


def describe_measurement(measurement: Measurement) -> str:
    """The mean and its interval, for example ``0.12 [0.08, 0.16]``; or why there is none."""
    interval = measurement.interval
    if interval is None:
        return "no interval: fewer than two seeds can be compared"
    return interval.describe(percent=measurement.statistic.percent)


def describe_rule(statistic: Statistic) -> str:
    """Where the interval has to be, for example ``above 0 (does not hold below 0.02)``."""
    return statistic.rule.describe(*((100.0, " %") if statistic.percent else (1.0, "")))


def describe_registration(result: Result) -> str:
    """For example ``registered 2026-11-18 (1a2b3c4)``; empty if the grid was not registered before its runs."""
    return f"registered {result.registered}" if result.registered else ""


def describe_runs(result: Result) -> str:
    """How many runs of the grid are missing; empty if none are."""
    missing = result.wanted - len(result.records)
    return f"{missing} of {result.wanted} runs are missing" if missing else ""
