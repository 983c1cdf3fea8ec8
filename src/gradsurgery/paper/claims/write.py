"""Print and write the ledger."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradsurgery.lab import RunRecord, UserError
from gradsurgery.lab.atomic import write_atomically
from gradsurgery.paper.claims.claim import Claim, Result, judge
from gradsurgery.paper.claims.ledger import CLAIMS, SCALES
from gradsurgery.paper.claims.markdown import render_markdown
from gradsurgery.paper.claims.page import write_page
from gradsurgery.paper.claims.records import write_records
from gradsurgery.paper.claims.rule import Verdict

_STYLES = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.UNDECIDED: "yellow"}


def judge_all(claims: Sequence[Claim], stored: Iterable[RunRecord]) -> dict[str, list[Result]]:
    """The results of each scale that has any."""
    by_key: Mapping[str, RunRecord] = {record.spec.key: record for record in stored}
    by_scale = {scale: [result for claim in claims if (result := judge(claim, scale, by_key))] for scale in SCALES}
    return {scale: results for scale, results in by_scale.items() if results}


def write_ledger(
    claims: Sequence[Claim],
    stored: Sequence[RunRecord],
    console: Console,
    *,
    folder: Path,
    markdown: Path | None,
    export: Path | None,
) -> None:
    """Print the verdicts of each scale, and write the page into the folder.

    On request, also write the page as Markdown, and the runs behind it as Parquet.
    """
    by_scale = judge_all(claims, stored)
    if not by_scale:
        raise UserError(
            f"no run of {', '.join(claim.id for claim in claims)} is finished, so there is nothing to judge"
        )
    for scale, results in by_scale.items():
        console.print(f"At the scale {scale}", style="bold")
        _print_table(results, console)
    console.print(f"page: {write_page(by_scale, folder)}", soft_wrap=True)
    if markdown:
        write_atomically(markdown, render_markdown(by_scale, CLAIMS).encode())
        console.print(f"Markdown: {markdown}", soft_wrap=True)
    if export:
        used = {record.spec.key: record for results in by_scale.values() for each in results for record in each.records}
        console.print(f"{write_records(used.values(), export)} runs written to {export}", soft_wrap=True)


def _print_table(results: Sequence[Result], console: Console) -> None:
    """Print the claims, what was measured, and the verdicts."""
    table = Table("id", "claim", "measured, with 95 % interval", "seeds", "verdict", show_lines=True)
    for result in results:
        measured = "\n".join(f"{each.statistic.name}: {each.text}" for each in result.measurements)
        verdict = Text("\n".join([result.verdict, *result.notes]), style=_STYLES[result.verdict])
        table.add_row(result.claim.id, Text(result.claim.sentence), Text(measured), str(result.seeds), verdict)
    console.print(table)
    verdicts = [result.verdict for result in results]
    console.print(", ".join(f"{verdict}: {verdicts.count(verdict)}" for verdict in Verdict), soft_wrap=True)
