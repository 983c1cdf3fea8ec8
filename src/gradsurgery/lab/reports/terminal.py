"""The summary of a sweep in the terminal: hypervolumes, and runs without a result."""

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.reports.comparison import compare
from gradsurgery.lab.reports.looks import number
from gradsurgery.lab.reports.options import main_alone
from gradsurgery.lab.reports.outcomes import outcome_sentences
from gradsurgery.lab.reports.recommend import recommend, verdict
from gradsurgery.lab.run import RunRecord


def print_summary(records: Sequence[RunRecord], console: Console, *, missing: int = 0) -> None:
    """Print the hypervolumes on training data, then one line each for diverged, failed, unfinished and missing runs.

    Names and reasons come from the store and may contain anything, so nothing is parsed as rich markup.

    Args:
        records: runs of one problem at one scale, whatever their status.
        console: where to print.
        missing: how many runs of the grid are not stored at all.
    """
    comparison = compare(records)
    if any(result.without_result < result.runs for result in comparison.results):
        table = Table("method", "hypervolume (train)", "± over seeds", "dominated", "runs", box=None)
        for result in comparison.results:
            dominated = "–" if math.isnan(result.dominated) else f"{number(100 * result.dominated)} %"
            table.add_row(
                Text(result.label), number(result.hypervolume), number(result.spread), dominated, str(result.runs)
            )
        console.print(table)
        if comparison.no_verdict:
            console.print(Text(f"No hypervolumes: {comparison.no_verdict}."), soft_wrap=True)
    for sentence in outcome_sentences(records, missing):
        console.print(Text(sentence, style="bold red"), soft_wrap=True)


def print_recommendations(
    records: Sequence[RunRecord],
    console: Console,
    *,
    allow: float = 0.02,
    absolute: bool = False,
    required: bool = False,
) -> None:
    """Print the best λ of each method if main may be a little worse than main alone, and which method wins.

    Args:
        records: runs of one problem at one scale.
        console: where to print.
        allow: how much worse main may be.
        absolute: whether ``allow`` is a difference of losses rather than a fraction.
        required: raise ``UserError`` if nothing can be recommended, instead of printing the reason.
    """
    try:
        recommendations = recommend(records, allow, absolute=absolute)
    except ValueError as error:
        if required:
            raise UserError(str(error)) from error
        if main_alone(records, "train") or main_alone(records, "test"):
            console.print(Text(f"No recommendation: {error}."), soft_wrap=True)
        return
    amount = f"{allow:g}" if absolute else f"{100 * allow:g} %"
    where = {"test": "held-out losses", "train": "training losses"}[recommendations[0].split]
    console.print(Text(f"If main may be {amount} worse than main alone ({where}):"), soft_wrap=True)
    for recommendation in recommendations:
        console.print(Text(f"  {recommendation.text}"), soft_wrap=True)
    if sentence := verdict(recommendations):
        console.print(Text(f"  {sentence}"), soft_wrap=True)
