"""The commands on stored runs: report, recommend, export. They import heavy modules only when they need them."""

import argparse
from pathlib import Path

from rich.console import Console

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.store import export_table, export_tensorboard
from gradsurgery.lab.stored import StoredSweep, select_runs, select_sweeps


def report(options: argparse.Namespace, console: Console) -> None:
    """Write the report of stored runs, and an index of several."""
    from gradsurgery.lab.reports.index import write_index

    scales = options.scale.split(",") if options.scale else ()
    sweeps = [sweep for name in options.problems for sweep in select_sweeps(options.folder, name, scales)]
    folder = options.folder / "report"
    reports = {}
    for sweep in sweeps:
        if len(sweeps) > 1:
            console.print(sweep.title, style="bold", soft_wrap=True)
        reports[write_report(sweep, folder, console)] = sweep.title, sweep.records
    if len(reports) > 1:
        console.print(f"index: {write_index(reports, folder)}", soft_wrap=True)


def write_report(sweep: StoredSweep, folder: Path, console: Console, *, missing: int = 0) -> Path:
    """Print the summary of a sweep, and write its report into a subfolder.

    Args:
        sweep: the runs.
        folder: where all reports are.
        console: for the summary.
        missing: how many runs of the sweep are not stored.
    """
    from gradsurgery.lab.reports.outcomes import has_losses
    from gradsurgery.lab.reports.report import write_report as write_page
    from gradsurgery.lab.reports.terminal import print_recommendations, print_summary

    print_summary(sweep.records, console, missing=missing)
    print_recommendations(sweep.records, console)
    declared = sweep.problem
    finished = [record for record in sweep.records if record.status == "done"]
    if finished and not (declared and declared.draws) and not any(map(has_losses, finished)):
        console.print(
            "No front: no finished run has main_train and aux_train, or main_test and aux_test, in its last row.",
            style="bold red",
            soft_wrap=True,
        )
    page = write_page(
        sweep.records,
        folder / sweep.folder_name,
        sweep.title,
        draw=declared.draw if declared else None,
        about=declared.losses if declared else None,
        missing=missing,
    )
    console.print(f"report: {page}", soft_wrap=True)
    return page


def recommend(options: argparse.Namespace, console: Console) -> None:
    """Print the best λ of each method."""
    from gradsurgery.lab.reports.terminal import print_recommendations

    allow, absolute = options.allow
    sweeps = select_sweeps(options.folder, options.problem, [options.scale] if options.scale else ())
    for sweep in sweeps:
        try:
            if len(sweeps) > 1:
                console.print(sweep.title, style="bold", soft_wrap=True)
            print_recommendations(sweep.records, console, allow=allow, absolute=absolute, required=True)
        except UserError as error:
            if len(sweeps) == 1:
                raise
            console.print(f"  {error}", soft_wrap=True)


def export(options: argparse.Namespace, console: Console) -> None:
    """Write stored runs as a table or as event files."""
    records = select_runs(options.folder, options.problem, [options.scale] if options.scale else (), status="done")
    try:
        (export_tensorboard if options.tensorboard else export_table)(records, options.path)
    except ValueError as error:
        raise UserError(str(error)) from error
    count = f"{len(records)} run{'s' * (len(records) != 1)}"
    console.print(f"{count} written to {options.path}", soft_wrap=True)
