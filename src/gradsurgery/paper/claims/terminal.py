"""The ledger in the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradsurgery.paper.claims.claim import Result
from gradsurgery.paper.claims.rule import Verdict
from gradsurgery.paper.claims.text import count_verdicts, describe_measurement, describe_registration, describe_runs

STYLES = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.UNDECIDED: "yellow"}


def print_ledger(results: Sequence[Result], console: Console) -> None:
    """Print a table of the claims, what was measured, and the verdicts."""
    table = Table("id", "claim", "measured, with 95 % interval", "seeds", "verdict", show_lines=True)
    for result in results:
        lines = [f"{each.statistic.name}: {describe_measurement(each)}" for each in result.measurements]
        table.add_row(
            result.claim.id,
            Text(result.claim.sentence),
            Text("\n".join([*lines, *filter(None, [describe_runs(result)])])),
            str(result.seeds),
            Text(f"{result.verdict}\n{describe_registration(result)}".rstrip(), style=STYLES[result.verdict]),
        )
    console.print(table)
    console.print(count_verdicts(results), soft_wrap=True)
