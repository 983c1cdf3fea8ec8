"""The commands that look after a store: ``status``, ``delete``, ``rename`` and ``merge``."""

import argparse
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gradsurgery.lab.cli.arguments import split_names
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.lam import Lam, Tau, Weight, lam_name, lam_number, split_lam
from gradsurgery.lab.notation import parse_lam_lists, parse_numbers, parse_seeds
from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.store.edit import delete_runs, merge_store, rename_problem
from gradsurgery.lab.store.select import select_runs
from gradsurgery.lab.store.status import read_status
from gradsurgery.lab.text import count, describe_runs, duration, number

_COUNTS = ("done", "running", "waiting", "interrupted", "failed", "stopped")


def status(options: argparse.Namespace, console: Console) -> None:
    """Print how many runs of each problem are done, in training or failed, and how long the rest takes."""
    rows = read_status(options.folder)
    shown = [name for name in _COUNTS if name == "done" or any(row.counts[name] for row in rows)]
    table = Table("problem", "scale", box=None)
    for name in (*shown, "a run", "left"):
        table.add_column(name, justify="right")
    for row in rows:
        times = ["" if seconds is None else duration(seconds) for seconds in (row.seconds, row.seconds_left)]
        table.add_row(Text(row.problem), Text(row.scale), *(str(row.counts[name] or "") for name in shown), *times)
    console.print(table)


def delete(options: argparse.Namespace, console: Console) -> None:
    """Delete runs, after showing them and asking."""
    records = _select(options)
    if options.failed:
        matching, records = records, [record for record in records if record.status == "failed"]
        if not records:
            runs = f"{count(len(matching), 'matching run')} of {matching[0].spec.problem}"
            console.print(f"nothing to delete: of {runs}, none failed", soft_wrap=True)
            return
    chosen = [record.spec for record in records]
    for line in describe_runs(chosen):
        console.print(f"  {line}", soft_wrap=True)
    amount = f"{count(len(chosen), 'run')} of {chosen[0].problem}"
    if options.yes or _confirm(f"Delete {amount} from {options.folder}?"):
        delete_runs(options.folder, records)
        console.print(f"{amount} deleted", soft_wrap=True)


def rename(options: argparse.Namespace, console: Console) -> None:
    """Rename a problem in the store."""
    records = select_runs(options.folder, options.problem)
    rename_problem(options.folder, records, options.name)
    console.print(
        f"{count(len(records), 'run')} of {records[0].spec.problem} renamed to {options.name}", soft_wrap=True
    )


def merge(options: argparse.Namespace, console: Console) -> None:
    """Copy the runs of other stores into one."""
    for source in options.sources:
        merged = merge_store(options.folder, source)
        outcomes = {
            "added": merged.added,
            "added in place of failed or unfinished ones": merged.replaced,
            "the same in both": merged.equal,
            f"different in both, kept as in {options.folder}": merged.different,
            "left out as unfinished": merged.unfinished,
        }
        parts = [f"{count(amount, 'run')} {outcome}" for outcome, amount in outcomes.items() if amount]
        console.print(f"{source}: {'; '.join(parts) or 'no runs'}", soft_wrap=True)
        for name in merged.mixed:
            console.print(f"warning: runs of {name} were trained by different code: compare with care", soft_wrap=True)


def _select(options: argparse.Namespace) -> list[RunRecord]:
    """The runs of a problem that all options name, failed or not; at least one."""
    records = select_runs(options.folder, options.problem, options.scale)
    methods = None if options.methods is None else split_names(options.methods)
    lams = parse_lam_lists(options.lams or "")
    taus = [Tau(tau) for tau in parse_numbers(options.taus or "")]
    seeds = None if options.seeds is None else parse_seeds(options.seeds)
    chosen = [
        record
        for record in records
        if (methods is None or record.spec.method in methods)
        and (not (options.lams or options.taus) or any(_has_lams(record.spec.lam, lists) for lists in ([taus], lams)))
        and (seeds is None or record.spec.seed in seeds)
    ]
    if not chosen:
        stored = "; ".join(describe_runs(record.spec for record in records))
        raise UserError(f"no stored run of {options.problem} matches all options; it has {stored}")
    return chosen


def _has_lams(lam: Lam | None, lists: Sequence[Sequence[Weight | Tau]]) -> bool:
    """True if each λ is in the list of its place; λ beyond the last list may be anything."""
    return lam is not None and all(
        any(_is_lam(each, given) for given in lams) for each, lams in zip(split_lam(lam), lists, strict=False)
    )


def _is_lam(lam: Weight | Tau, given: Weight | Tau) -> bool:
    """True if λ is the given one, or is shown as it: with three digits."""
    is_shown = lam_name(lam) == lam_name(given) and number(lam_number(lam)) == number(lam_number(given), digits=15)
    return lam == given or is_shown


def _confirm(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UserError("delete asks before it deletes, and here nobody can answer: add --yes")
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
