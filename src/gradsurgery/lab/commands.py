"""The commands that list and train: list, run, sweep, claims. They import heavy modules only when they need them."""

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from gradsurgery.lab.arguments import parse_settings
from gradsurgery.lab.declaration import Problem
from gradsurgery.lab.errors import FailedRunsError, UserError, unknown
from gradsurgery.lab.grid import parse_lams, parse_numbers, specs
from gradsurgery.lab.listing import print_problem, print_problems
from gradsurgery.lab.method import register_method
from gradsurgery.lab.problems import PROBLEMS, installed_problems, problem
from gradsurgery.lab.references import is_reference, load
from gradsurgery.lab.report_commands import write_report
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.store import Store
from gradsurgery.lab.stored import select_sweeps, settings_text


def list_problems(options: argparse.Namespace, console: Console) -> None:
    """List the problems, or the settings, data and methods of one."""
    if options.problem is not None:
        print_problem(problem(options.problem), console)
        return
    print_problems(PROBLEMS, console)
    for name in installed_problems():
        try:
            print_problems({name: problem(name)}, console)
        except UserError as error:  # a broken package must not hide the others
            console.print(f"{name}: {error}", soft_wrap=True)


def run(options: argparse.Namespace, console: Console) -> None:
    """Train one run."""
    declared = problem(options.problem)
    lams = parse_lams(options.lam)
    runs = specs(
        declared,
        options.scale or next(iter(declared.scales)),
        methods=[_method(options.method)],
        lams=lams.values,
        rhos=None if options.rho is None else parse_numbers(options.rho),
        seeds=parse_numbers(options.seed),
        settings=parse_settings(options.set),
    )
    if len(runs) != 1:
        raise UserError(f"run trains a single run, but this names {len(runs)} runs: give one --lam, or use sweep")
    records = _train(options, console, declared, runs)
    for record in records:
        for name, value in record.final.items():
            console.print(f"{name:28} {value:.6g}")
    _raise_if_failed(records)


def sweep(options: argparse.Namespace, console: Console) -> None:
    """Train a grid, then write the report."""
    declared = problem(options.problem)
    scale = options.scale or next(iter(declared.scales))
    lams = parse_lams(options.lams, declared.scale(scale))
    runs = specs(
        declared,
        scale,
        methods=None if options.methods is None else [_method(name) for name in _split(options.methods)],
        lams=lams.values,
        rhos=None if options.rhos is None else parse_numbers(options.rhos),
        seeds=None if options.seeds is None else parse_numbers(options.seeds),
        settings=parse_settings(options.set),
        main_alone=True,
    )
    if records := _train(options, console, declared, runs, lams.limit):
        # the report of a large sweep must survive a small one: it covers both, or is in another folder
        sweeps = select_sweeps(options.folder, options.problem, [scale])
        (swept,) = (sweep for sweep in sweeps if settings_text(sweep.settings) == settings_text(runs[0].settings))
        write_report(swept, options.folder / "report", console, missing=max(len(runs) - len(records), 0))
        _raise_if_failed(records)


def _split(text: str) -> list[str]:
    return [item for item in map(str.strip, text.split(",")) if item]


def _method(name: str) -> str:
    """The name of a method; one of the user's own, given as a reference, is registered first."""
    return register_method(load(name, type, "a method, which is a class")) if is_reference(name) else name


def _train(
    options: argparse.Namespace, console: Console, declared: Problem, runs: list[RunSpec], max_lams: int | None = None
) -> list[RunRecord]:
    """Train the runs and return their records; of processes that train together only the leader has any."""
    from gradsurgery.lab.sweeps import ProgressBar, RayOptions, sweep

    if options.gpus_per_run is not None and options.ray is None:
        raise UserError("--gpus-per-run goes with --ray: on one machine, each accelerator trains one run")
    train = partial(
        sweep,
        declared,
        runs,
        folder=options.folder,
        max_lams=max_lams,
        cores_per_run=options.cores_per_run,
        ray=None if options.ray is None else RayOptions(options.ray or None, options.gpus_per_run or 0),
        data_dir=options.data_dir,
        checkpoint_every=options.checkpoint_every,
    )
    if options.process and not _join_processes(options, max_lams):
        with TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
            train(store, listener=ProgressBar(Console(quiet=True)), workers=0)
        return []
    with Store(_store_path(options)) as store, ProgressBar(console) as bar:
        return train(store, listener=bar, workers=0 if options.process else options.workers)


def _join_processes(options: argparse.Namespace, max_lams: int | None) -> bool:
    """Connect to the processes that train every run together, and return True in the leader."""
    from gradsurgery.lab.train.multihost import is_leader, join

    if (options.workers, options.cores_per_run, options.ray) != (None, None, None):
        raise UserError(
            "processes that train together share every run, so --process takes no --workers, no --cores-per-run "
            "and no --ray"
        )
    if max_lams is not None:
        raise UserError("an adaptive grid depends on results that only the first process has: give --lams in full")
    join(options.process)
    return is_leader()


def _raise_if_failed(records: Sequence[RunRecord]) -> None:
    failed = [record for record in records if record.status == "failed"]
    if failed:
        reason = " ".join(str(failed[0].info.get("reason", "")).split())
        raise FailedRunsError(
            f"{len(failed)} of {len(records)} runs failed ({reason}): the same command tries them again, and with "
            "--workers 0 shows the traceback"
        )


def claims(options: argparse.Namespace, console: Console) -> None:
    """Train the missing runs of the claims of the paper, and print and write the verdicts."""
    from gradsurgery.lab.claims.command import write_ledger
    from gradsurgery.lab.claims.ledger import SCALES, select
    from gradsurgery.lab.claims.records import read_records
    from gradsurgery.lab.claims.training import train_claims
    from gradsurgery.lab.sweeps import ProgressBar

    chosen, scale = select(options.ids), options.scale or SCALES[0]
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES, where="of the claims")
    if not options.records and not any(scale in claim.grids for claim in chosen):
        raise UserError(f"{', '.join(claim.id for claim in chosen)} cannot be tested at the scale {scale}")
    trained: list[RunRecord] = []
    if options.records:
        stored = read_records(options.records)
    else:
        with Store(_store_path(options)) as store, ProgressBar(console) as bar:
            trained = train_claims(
                chosen,
                scale,
                store,
                folder=options.folder,
                listener=bar,
                workers=options.workers,
                data_dir=options.data_dir,
                checkpoint_every=options.checkpoint_every,
            )
            stored = store.select()
    write_ledger(
        chosen,
        stored,
        console,
        folder=options.folder / "report" / "claims",
        markdown=options.markdown,
        export=options.export,
    )
    _raise_if_failed(trained)


def _store_path(options: argparse.Namespace) -> Path:
    return options.folder / "store.sqlite"
