"""The summary of a sweep in the terminal: hypervolumes, and every run that did not end well."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradsurgery.lab.reports import pareto
from gradsurgery.lab.reports.looks import number
from gradsurgery.lab.reports.outcomes import outcome_sentences
from gradsurgery.lab.run import RunRecord


def print_summary(records: Sequence[RunRecord], console: Console, *, missing: int = 0) -> None:
    """Print the hypervolumes on training data, then one line each for diverged, failed, unfinished and missing runs.

    Names and reasons come from the store and may hold anything, so nothing is parsed as rich markup.

    Args:
        records: runs of one problem at one scale, whatever their status.
        console: where to print.
        missing: how many runs of the grid are not stored at all.
    """
    rows = pareto.summary(records)
    if any(row.failed < row.runs for row in rows):
        table = Table("method", "hypervolume (train)", "± over seeds", "dominated", "runs", box=None)
        for row in rows:
            cells = number(row.hypervolume), number(row.spread), number(100 * row.dominated) + " %", str(row.runs)
            table.add_row(Text(row.label), *cells)
        console.print(table)
    for sentence in outcome_sentences(records, missing):
        console.print(Text(sentence, style="bold red"), soft_wrap=True)
