"""The command line: list, run, sweep, report, export.

What takes long to import is imported inside the commands that need it, so that help, ``list`` and mistakes in the
arguments answer at once.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from rich.console import Console
from rich.table import Table

from gradsurgery.lab.errors import FailedRunsError, UserError
from gradsurgery.lab.grid import numbers, specs
from gradsurgery.lab.problems import PROBLEMS, problem
from gradsurgery.lab.reports.looks import number
from gradsurgery.lab.run import RunRecord, RunSpec, Setting
from gradsurgery.lab.store import Store, StoreError, export_table, export_tensorboard

_EXAMPLES = """examples:
  gradsurgery list                                             problems, methods and default grids
  gradsurgery run lipschitz --method bloop --lam 0.1           one run
  gradsurgery sweep lipschitz                                  methods x weights x seeds, then a report
  gradsurgery sweep lipschitz --methods mixed,bloop --lams 0,1e-4:1:9log --rhos 0.01,0.1 --seeds 0,1,2
  gradsurgery sweep lipschitz --scale laptop --data-dir data   real data, from a folder or the hub
  gradsurgery sweep lipschitz --set epochs=5 --set batch=64    change settings of the problem
  gradsurgery sweep weights --process 0/2@host:1234            the first of two machines that train together
  gradsurgery report lipschitz                                 write the report of the stored runs again
  gradsurgery export lipschitz runs.parquet                    a table for pandas

Everything is stored in --folder (default: ./runs). If a sweep is killed, the same command continues it."""


class _Parser(argparse.ArgumentParser):
    """Raises ``UserError`` instead of printing the usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} ({self.prog} --help shows examples)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 2 for a mistake of the user, 1 for any other failure."""
    # what users and stores contribute is printed as it is, never parsed
    console = Console(markup=False, highlight=False, emoji=False)
    errors = Console(markup=False, highlight=False, emoji=False, stderr=True)

    def print_error(error: Exception) -> None:
        errors.print(f"gradsurgery: {error}", style="red", soft_wrap=True)

    try:
        options = _parser().parse_args(arguments)
        command: Callable[[argparse.Namespace, Console], None] = options.command
        command(options, console)
    except UserError as error:
        print_error(error)
        return 2
    except (FailedRunsError, StoreError, OSError) as error:
        print_error(error)
        return 1
    except KeyboardInterrupt:
        errors.print("gradsurgery: stopped; the same command continues")
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gradsurgery",
        description="Train grids of methods and weights, and compare their Pareto fronts.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="list | run | sweep | report | export")

    def add(name: str, command: Callable[[argparse.Namespace, Console], None], text: str) -> argparse.ArgumentParser:
        subparser = commands.add_parser(
            name, help=text, description=text, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        subparser.set_defaults(command=command)
        return subparser

    add("list", _list, "list the problems, their scales and their default grids")

    run = add("run", _run, "train one method with one weight")
    _add_training_arguments(run)
    run.add_argument("--method", required=True, help="a name from gradsurgery list")
    run.add_argument("--lam", help="weight of the auxiliary loss")
    run.add_argument("--rho", help="speed of the moving average")
    run.add_argument("--seed", default="0", help="default: 0")

    swept = add("sweep", _sweep, "train a grid of methods, weights and seeds, and write a report")
    _add_training_arguments(swept)
    swept.add_argument("--methods", help="for example mixed,bloop")
    swept.add_argument("--lams", help="weights of the auxiliary loss, for example 0,1e-4:1:9log")
    swept.add_argument("--rhos", help="speeds of the moving average, for example 0.01,0.1")
    swept.add_argument("--seeds", help="for example 0,1,2")

    report = add("report", _report, "write the report of the stored runs")
    _add_problem_arguments(report)
    report.add_argument("--scale", default="demo", help="demo (default), laptop or paper")

    export = add("export", _export, "write the stored runs as parquet, CSV or TensorBoard logs")
    _add_problem_arguments(export)
    export.add_argument("path", type=Path, help="a .parquet or .csv file, or a folder with --tensorboard")
    export.add_argument("--scale", help="only this scale")
    export.add_argument("--tensorboard", action="store_true", help="write event files below a folder")
    return parser


def _add_problem_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("problem", help="a name from gradsurgery list")
    parser.add_argument(
        "--folder", type=Path, default=Path("runs"), help="where everything is stored (default: ./runs)"
    )


def _add_training_arguments(parser: argparse.ArgumentParser) -> None:
    _add_problem_arguments(parser)
    parser.add_argument("--scale", default="demo", help="demo (default), laptop or paper")
    parser.add_argument("--data-dir", type=Path, help="a folder whose subfolders stand in for hub ids")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting")
    parser.add_argument("--checkpoint-every", type=_seconds, default=60.0, metavar="SECONDS", help="default: 60")
    parser.add_argument(
        "--workers", type=_workers, help="processes that share the runs (default: one per core); 0 trains in this one"
    )
    parser.add_argument(
        "--cores-per-run",
        type=_cores,
        metavar="N",
        help="numbers depend on it, so it is recorded (default: 1, or all with an accelerator)",
    )
    parser.add_argument("--process", metavar="0/2@HOST:PORT", help="one of several that train together; or auto")


def _list(options: argparse.Namespace, console: Console) -> None:
    for listed in PROBLEMS.values():
        console.print(f"{listed.name}: {listed.title}", style="bold")
        console.print(f"  main: {listed.main}; aux: {listed.aux}")
        table = Table("scale", "methods", "λ", "ρ", "seeds", "runs", box=None, padding=(0, 2))
        for name, scale in listed.scales.items():
            runs = str(len(specs(listed, name)))
            grid = ", ".join(scale.methods), _span(scale.lams), _span(scale.rhos), str(len(scale.seeds))
            table.add_row(name, *grid, runs)
        console.print(table, "")


def _span(values: Sequence[float]) -> str:
    if len(values) > 4:
        return f"{number(min(values))} … {number(max(values))}"
    return ", ".join(map(number, values))


def _run(options: argparse.Namespace, console: Console) -> None:
    runs = specs(
        problem(options.problem),
        options.scale,
        methods=[options.method],
        lams=None if options.lam is None else numbers(options.lam),
        rhos=None if options.rho is None else numbers(options.rho),
        seeds=_seeds(options.seed),
        settings=_settings(options.set),
    )
    if len(runs) != 1:
        raise UserError(f"run trains one method with one weight, but this names {len(runs)} runs: give --lam, or sweep")
    records = _train(options, console, runs)
    for record in records:
        for name, value in record.final.items():
            console.print(f"{name:28} {value:.6g}")
    _raise_if_failed(records)


def _sweep(options: argparse.Namespace, console: Console) -> None:
    runs = specs(
        problem(options.problem),
        options.scale,
        methods=None if options.methods is None else [name for name in options.methods.split(",") if name],
        lams=None if options.lams is None else numbers(options.lams),
        rhos=None if options.rhos is None else numbers(options.rhos),
        seeds=None if options.seeds is None else _seeds(options.seeds),
        settings=_settings(options.set),
    )
    if records := _train(options, console, runs):
        # the report of a large sweep must survive a small one: it covers both, or is in another folder
        _write_report(options, console, missing=len(runs) - len(records), settings=runs[0].settings)
        _raise_if_failed(records)


def _train(options: argparse.Namespace, console: Console, runs: list[RunSpec]) -> list[RunRecord]:
    """Train the runs and return their records; of processes that train together only the leader has any."""
    from gradsurgery.lab.sweeps import ProgressBar, sweep

    train = partial(
        sweep,
        problem(options.problem),
        runs,
        folder=options.folder,
        cores_per_run=options.cores_per_run,
        data_dir=options.data_dir,
        checkpoint_every=options.checkpoint_every,
    )
    workers = options.workers
    if options.process:
        from gradsurgery.lab.train.multihost import is_leader, join

        if options.workers is not None or options.cores_per_run is not None:
            raise UserError(
                "processes that train together share every run, so --process takes no --workers and no --cores-per-run"
            )
        join(options.process)
        workers = 0
        if not is_leader():
            with TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
                train(store, listener=ProgressBar(Console(quiet=True)), workers=workers)
            return []
    with Store(_store_path(options)) as store, ProgressBar(console) as bar:
        return train(store, listener=bar, workers=workers)


def _raise_if_failed(records: Sequence[RunRecord]) -> None:
    failed = [record for record in records if record.status == "failed"]
    if failed:
        reason = " ".join(str(failed[0].info.get("reason", "")).split())
        raise FailedRunsError(
            f"{len(failed)} of {len(records)} runs failed ({reason}): the same command tries them again, and with "
            "--workers 0 shows the traceback"
        )


def _report(options: argparse.Namespace, console: Console) -> None:
    problem(options.problem).scale(options.scale)
    _write_report(options, console)


def _write_report(
    options: argparse.Namespace, console: Console, *, missing: int = 0, settings: Mapping[str, Setting] | None = None
) -> None:
    """Print the summary and write the report of all runs stored for a problem and scale.

    Args:
        options: name the problem, the scale and the folder.
        console: for the summary.
        missing: how many runs of a sweep are not stored.
        settings: cover only runs with these; None for all.
    """
    records = [record for record in _select(options, status=None) if settings in (None, record.spec.settings)]

    from gradsurgery.lab.reports.report import write_report
    from gradsurgery.lab.reports.terminal import print_summary

    print_summary(records, console, missing=missing)
    reported = problem(options.problem)
    page = write_report(
        records,
        options.folder / "report" / _report_name(options.problem, options.scale, settings),
        f"{options.problem}, {options.scale}",
        draw=reported.draw,
        about={"Main": reported.main, "Aux": reported.aux},
        missing=missing,
    )
    console.print(f"report: {page}", soft_wrap=True)


def _report_name(name: str, scale: str, settings: Mapping[str, Setting] | None) -> str:
    """The name of the report's folder, with a hash of the settings unless they are those of the scale."""
    if settings in (None, specs(problem(name), scale)[0].settings):
        return f"{name}-{scale}"
    return f"{name}-{scale}-{hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]}"


def _export(options: argparse.Namespace, console: Console) -> None:
    if options.scale is not None:
        problem(options.problem).scale(options.scale)
    records = _select(options, status="done")
    try:
        (export_tensorboard if options.tensorboard else export_table)(records, options.path)
    except ValueError as error:
        raise UserError(str(error)) from error
    console.print(f"{len(records)} runs written to {options.path}", soft_wrap=True)


def _select(options: argparse.Namespace, status: str | None) -> list[RunRecord]:
    """The stored runs of a problem, at least one; at a scale unless it is None."""
    problem(options.problem)
    path = _store_path(options)
    if not path.exists():
        raise UserError(f"there is no store in {options.folder}: gradsurgery sweep creates one, --folder names another")
    with Store(path) as store:
        records = store.select(options.problem, options.scale, status)
    if not records:
        scale = f" at scale {options.scale}" if options.scale else ""
        raise UserError(
            f"no run of {options.problem}{scale} is stored in {options.folder}: train some with gradsurgery sweep"
        )
    return records


def _store_path(options: argparse.Namespace) -> Path:
    return options.folder / "store.sqlite"


def _workers(text: str) -> int:
    return _whole_number("the number of workers", text, least=0)


def _cores(text: str) -> int:
    return _whole_number("the number of cores per run", text, least=1)


def _whole_number(what: str, text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise UserError(f"{what} is a whole number from {least}, but got {text}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise UserError(f"the time between checkpoints is a number of seconds from 0, but got {text}")
    return seconds


def _seeds(text: str) -> tuple[int, ...]:
    seeds = numbers(text)
    if not all(0 <= seed < 2**31 and seed == int(seed) for seed in seeds):
        raise UserError(f"seeds are whole numbers from 0 to {2**31 - 1}, but got {text}")
    return tuple(int(seed) for seed in seeds)


def _settings(items: Sequence[str]) -> dict[str, str]:
    settings = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise UserError(f"a setting is given as NAME=VALUE, but got {item!r}")
        settings[name] = value
    return settings


if __name__ == "__main__":
    sys.exit(main())
