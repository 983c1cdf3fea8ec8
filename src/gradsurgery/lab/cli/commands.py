"""The commands, each a call of the lab's functions. They import heavy modules only when they need them."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from gradsurgery.lab.cli.arguments import (
    metrics_by_loss,
    parse_allowance,
    parse_parameters,
    parse_settings,
    split_names,
)
from gradsurgery.lab.cli.listing import print_problem, print_problems
from gradsurgery.lab.errors import FailedRunsError, UserError
from gradsurgery.lab.find import find_problem, installed_problems
from gradsurgery.lab.grid import plan_runs
from gradsurgery.lab.lam import has_weight, lam_names
from gradsurgery.lab.objective import read_objectives
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.store import Store, export_mlflow, export_optuna, export_table, export_tensorboard, export_wandb
from gradsurgery.lab.store.select import StoredSweep, select_runs, select_sweeps, stored_sweep
from gradsurgery.lab.store.status import mean_seconds
from gradsurgery.lab.sweep import sweep as train_sweep
from gradsurgery.lab.text import count, describe_runs, duration

if TYPE_CHECKING:
    from gradsurgery.lab.analysis.allowance import Allowance


def list_problems(options: argparse.Namespace, console: Console) -> None:
    """List the problems, or the settings, data and methods of one."""
    if options.problem is not None:
        print_problem(find_problem(options.problem), console)
        return
    broken: dict[str, list[str]] = {}
    for name in installed_problems():
        try:
            print_problems({name: find_problem(name)}, console)
        except UserError as error:  # a broken package must not hide the others
            broken.setdefault(str(error), []).append(name)
    for sentence, names in broken.items():
        console.print(f"{', '.join(names)}: {sentence}", soft_wrap=True)


def run(options: argparse.Namespace, console: Console) -> None:
    """Train one run."""
    grid = {"methods": [options.method], "lams": _lists(options.lam), "taus": options.tau, "rhos": options.rho}
    grid |= {
        "seeds": options.seed,
        "scale": options.scale,
        "settings": parse_settings(options.set),
        "main_alone": False,
    }
    _, runs, _ = plan_runs(options.problem, **grid)
    if len(runs) != 1:
        raise UserError(
            f"run trains a single run, but this names {len(runs)} runs: give one --lam or --tau, or use sweep"
        )
    records = _train(options, console, grid)
    for record in records:
        for name, value in record.final.items():
            console.print(f"{name:28} {value:.6g}")
    raise_if_failed(records, options.folder)


def sweep(options: argparse.Namespace, console: Console) -> None:
    """Train a grid, then write the report."""
    methods = None if options.methods is None else split_names(options.methods)
    grid = {"methods": methods, "lams": _lists(options.lams), "taus": options.taus, "rhos": options.rhos}
    grid |= {"seeds": options.seeds, "scale": options.scale, "settings": parse_settings(options.set)}
    if options.dry_run:
        _, runs, max_lams = plan_runs(options.problem, **grid)
        _print_plan(runs, max_lams, options.folder, console, options.allow if options.stop else None)
        return
    if records := _train(options, console, grid):
        # the report of a large sweep must survive a small one, so it covers all runs with the same settings
        swept = stored_sweep(options.folder, find_problem(options.problem), records)
        _write_report(swept, options.folder / "report", console, options.allow or parse_allowance("2%"))
        raise_if_failed(records, options.folder)


def _print_plan(
    runs: Sequence[RunSpec], max_lams: int | None, folder: Path, console: Console, allowance: "Allowance | None"
) -> None:
    """Print the runs of a grid that are to be trained, and how many are stored. Creates nothing."""
    with Store(folder / "store.sqlite") as store:
        stored = store.select(runs[0].problem, runs[0].scale, status=None)
    ended = {
        record.spec.key
        for record in stored
        if record.status == "done" or (record.status == "stopped" and allowance and allowance.is_covered(record.info))
    }
    missing = [run for run in runs if run.key not in ended]
    for line in describe_runs(missing):
        console.print(f"  {line}", soft_wrap=True)
    if max_lams is not None:
        name = lam_names(run.lam for run in runs if has_weight(run.lam))
        console.print(f"  then more {name} where the fronts have gaps, up to {max_lams} per method", soft_wrap=True)
    total = f"{count(len(runs), 'run')}: {len(runs) - len(missing)} stored, {len(missing)} to train"
    seconds = mean_seconds(stored)
    if missing and seconds is not None:
        total += f", about {duration(seconds * len(missing))} of training at {duration(seconds)} a run"
    console.print(total, soft_wrap=True)


def _lists(lams: list[str] | None) -> str | list[str] | None:
    """``--lams``: given once it is for all auxiliary losses, else once for each."""
    return lams[0] if lams and len(lams) == 1 else lams


def _train(options: argparse.Namespace, console: Console, grid: dict[str, Any]) -> list[RunRecord]:
    stop_at = options.allow if options.stop else None
    return train_sweep(
        options.problem,
        **grid,
        folder=options.folder,
        workers=options.workers,
        cores_per_run=options.cores_per_run,
        ray=False if options.ray is None else options.ray or True,
        slurm=False if options.slurm is None else parse_parameters(options.slurm) or True,
        gpus_per_run=options.gpus_per_run,
        process=options.process,
        data_dir=options.data_dir,
        checkpoint_every=options.checkpoint_every,
        time_limit=options.time_limit,
        again=options.again,
        keep=options.keep,
        allow=stop_at and stop_at.limit,
        absolute=stop_at is not None and stop_at.absolute,
        console=console,
    )


def raise_if_failed(records: Sequence[RunRecord], folder: Path) -> None:
    """Raise ``FailedRunsError`` if any run has failed."""
    failed = [record for record in records if record.status == "failed"]
    if failed:
        info = failed[0].info
        reason = " ".join(str(info.get("reason", "")).split())
        log = f"; see {folder / str(info['log'])}" if "log" in info else ""
        raise FailedRunsError(
            f"{len(failed)} of {len(records)} runs failed ({reason}{log}): the same command tries them again"
        )


def report(options: argparse.Namespace, console: Console) -> None:
    """Write the report of stored runs, and an index of several."""
    from gradsurgery.lab.reports.index import write_index

    sweeps = [sweep for name in options.problems for sweep in _select(options, name)]
    folder = options.output or options.folder / "report"
    reports = {}
    for stored in sweeps:
        if len(sweeps) > 1:
            console.print(stored.title, style="bold", soft_wrap=True)
        reports[_write_report(stored, folder, console, options.allow)] = stored.title, stored.records
    if len(reports) > 1:
        console.print(f"index: {write_index(reports, folder, options.allow)}", soft_wrap=True)


def _select(options: argparse.Namespace, name: str) -> list[StoredSweep]:
    named = read_objectives(metrics_by_loss(options.maximise), metrics_by_loss(options.minimise))
    return select_sweeps(options.folder, name, options.scale, parse_settings(options.set), named)


def _write_report(stored: StoredSweep, folder: Path, console: Console, allowance: "Allowance") -> Path:
    """Print the summary of a sweep, and write its report into a subfolder."""
    from gradsurgery.lab.analysis.outcomes import has_losses
    from gradsurgery.lab.reports.report import report as write_page
    from gradsurgery.lab.reports.terminal import print_recommendations, print_summary

    print_summary(stored.records, console)
    finished = [record for record in stored.records if record.status == "done"]
    draws = stored.problem is not None and stored.problem.draw is not None
    if finished and not draws and not any(map(has_losses, finished)):
        console.print(
            "No front: no finished run has main_train and aux_train, or main_test and aux_test, in a row.",
            style="bold red",
            soft_wrap=True,
        )
    page = write_page(
        stored.records,
        folder / stored.folder_name,
        allow=allowance.limit,
        absolute=allowance.absolute,
        title=stored.title,
        problem=stored.problem,
    )
    print_recommendations(stored.records, console, allowance)
    console.print(f"report: {page}", soft_wrap=True)
    return page


def recommend(options: argparse.Namespace, console: Console) -> None:
    """Print the best λ of each method."""
    from gradsurgery.lab.reports.terminal import print_recommendations

    sweeps = _select(options, options.problem)
    for stored in sweeps:
        try:
            if len(sweeps) > 1:
                console.print(stored.title, style="bold", soft_wrap=True)
            print_recommendations(stored.records, console, options.allow, required=True)
        except UserError as error:
            if len(sweeps) == 1:
                raise
            console.print(f"  {error}", soft_wrap=True)


_EXPORTERS = {
    "table": export_table,
    "tensorboard": export_tensorboard,
    "wandb": export_wandb,
    "mlflow": export_mlflow,
    "optuna": export_optuna,
}


def export(options: argparse.Namespace, console: Console) -> None:
    """Write stored runs for another tool."""
    records = select_runs(options.folder, options.problem, options.scale, status="done")
    try:
        _EXPORTERS[options.format](records, options.path)
    except ModuleNotFoundError as error:
        name = f"--{options.format} needs {error.name}"
        raise UserError(f'{name}: pip install "gradsurgery[{options.format}]"') from error
    except ValueError as error:
        raise UserError(str(error)) from error
    console.print(f"{count(len(records), 'run')} written to {options.path}", soft_wrap=True)
