"""The command line: list, run, sweep, report, recommend, export.

What takes long to import is imported inside the commands that need it, so that help, ``list`` and mistakes in the
arguments answer at once.
"""

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from rich.console import Console

from gradsurgery.lab.declaration import Problem
from gradsurgery.lab.errors import FailedRunsError, UserError
from gradsurgery.lab.grid import Lams, numbers, parse_lams, specs
from gradsurgery.lab.listing import print_problem, print_problems
from gradsurgery.lab.method import register_method
from gradsurgery.lab.problems import PROBLEMS, problem
from gradsurgery.lab.references import is_reference, load
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.store import Store, StoreError, export_table, export_tensorboard
from gradsurgery.lab.stored import StoredSweep, select_runs, select_sweeps

_EXAMPLES = """examples:
  gradsurgery list                                             problems and default grids
  gradsurgery list lipschitz                                   its settings, data and methods
  gradsurgery run lipschitz --method bloop --lam 0.1           one run
  gradsurgery sweep lipschitz                                  methods x weights x seeds, then a report
  gradsurgery sweep lipschitz --methods mixed,bloop --lams 0,1e-4:1:9log --rhos 0.01,0.1 --seeds 0,1,2
  gradsurgery sweep lipschitz --lams relative:0.03:3:7log      λ in units of main's gradient
  gradsurgery sweep lipschitz --lams auto:9                    up to nine λ, placed where the front has gaps
  gradsurgery sweep lipschitz --scale laptop --data-dir data   real data, from a folder or the hub
  gradsurgery sweep lipschitz --set epochs=5 --set batch=64    change settings of the problem
  gradsurgery sweep weights --process 0/2@host:1234            the first of two machines that train together
  gradsurgery sweep my_problem.py:smooth                       a problem of your own, from a file or a module
  gradsurgery sweep lipschitz --methods bloop,my_methods.py:damped    and a method of your own
  gradsurgery sweep my_problem.py:smooth --ray --gpus-per-run 1       on the Ray cluster in RAY_ADDRESS
  gradsurgery report lipschitz                                 write the report of the stored runs again
  gradsurgery report lipschitz weights --scale demo,laptop     several reports, and an index to compare them
  gradsurgery recommend lipschitz --allow 2%                   the best λ if main may be 2 % worse than main alone
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
    commands = parser.add_subparsers(required=True, metavar="list | run | sweep | report | recommend | export")

    def add(name: str, command: Callable[[argparse.Namespace, Console], None], text: str) -> argparse.ArgumentParser:
        subparser = commands.add_parser(
            name, help=text, description=text, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        subparser.set_defaults(command=command)
        return subparser

    listed = add("list", _list, "list the problems and their default grids; or all about one of them")
    listed.add_argument("problem", nargs="?", help="show its settings, data and methods")

    run = add("run", _run, "train one method with one weight")
    _add_training_arguments(run)
    run.add_argument("--method", required=True, help="a name from gradsurgery list")
    run.add_argument("--lam", help="weight of the auxiliary loss")
    run.add_argument("--rho", help="speed of the moving average")
    run.add_argument("--seed", default="0", help="default: 0")

    swept = add("sweep", _sweep, "train a grid of methods, weights and seeds, and write a report")
    _add_training_arguments(swept)
    swept.add_argument("--methods", help="for example mixed,bloop")
    swept.add_argument("--lams", help="weights of the auxiliary loss, such as 0,1e-4:1:9log or relative:0.03:3:7log")
    swept.add_argument("--rhos", help="speeds of the moving average, for example 0.01,0.1")
    swept.add_argument("--seeds", help="for example 0,1,2")

    report = add("report", _report, "write the report of the stored runs, and an index of several reports")
    _add_problem_arguments(report, several=True)
    report.add_argument("--scale", help="demo (default), laptop or paper; or several, such as demo,laptop")

    recommend = add("recommend", _recommend, "name the best λ of each method for a given loss in main")
    _add_problem_arguments(recommend)
    recommend.add_argument("--scale", help="demo (default), laptop or paper")
    recommend.add_argument(
        "--allow",
        type=_allowance,
        default=(0.02, False),
        metavar="2%",
        help="how much worse than main alone main may be: 2%% (default), or a difference of losses such as 0.01",
    )

    export = add("export", _export, "write the stored runs as parquet, CSV or TensorBoard logs")
    _add_problem_arguments(export)
    export.add_argument("path", type=Path, help="a .parquet or .csv file, or a folder with --tensorboard")
    export.add_argument("--scale", help="only this scale")
    export.add_argument("--tensorboard", action="store_true", help="write event files below a folder")
    return parser


def _add_problem_arguments(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    meaning = "a name from gradsurgery list; or your own, as file.py:name or module:name"
    if several:
        parser.add_argument("problems", nargs="+", metavar="problem", help=meaning)
    else:
        parser.add_argument("problem", help=meaning)
    parser.add_argument(
        "--folder", type=Path, default=Path("runs"), help="where everything is stored (default: ./runs)"
    )


def _add_training_arguments(parser: argparse.ArgumentParser) -> None:
    _add_problem_arguments(parser)
    parser.add_argument("--scale", help="demo (default), laptop or paper; one of your own has a single scale")
    parser.add_argument("--data-dir", type=Path, help="a folder whose subfolders stand in for hub ids")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting")
    parser.add_argument("--checkpoint-every", type=_seconds, default=60.0, metavar="SECONDS", help="default: 60")
    parser.add_argument(
        "--workers", type=_workers, help="processes that share the runs (default: one per core); 0 trains in this one"
    )
    parser.add_argument(
        "--cores-per-run",
        "--cpus-per-run",
        type=_cores,
        metavar="N",
        help="numbers depend on it, so it is recorded (default: 1, or all with an accelerator)",
    )
    parser.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="train on a Ray cluster (default: the one in RAY_ADDRESS, or a local Ray)",
    )
    parser.add_argument("--gpus-per-run", type=_gpus, metavar="N", help="with --ray: the GPUs of each run (default: 0)")
    parser.add_argument("--process", metavar="0/2@HOST:PORT", help="one of several that train together; or auto")


def _list(options: argparse.Namespace, console: Console) -> None:
    if options.problem is None:
        print_problems(PROBLEMS.values(), console)
    else:
        print_problem(problem(options.problem), console)


def _run(options: argparse.Namespace, console: Console) -> None:
    chosen = problem(options.problem)
    lams = Lams(None) if options.lam is None else parse_lams(options.lam)
    runs = specs(
        chosen,
        options.scale or next(iter(chosen.scales)),
        methods=[_method(options.method)],
        lams=lams.values,
        relative=lams.relative,
        rhos=None if options.rho is None else numbers(options.rho),
        seeds=_seeds(options.seed),
        settings=_settings(options.set),
    )
    if len(runs) != 1:
        raise UserError(f"run trains one method with one weight, but this names {len(runs)} runs: give --lam, or sweep")
    records = _train(options, console, chosen, runs)
    for record in records:
        for name, value in record.final.items():
            console.print(f"{name:28} {value:.6g}")
    _raise_if_failed(records)


def _sweep(options: argparse.Namespace, console: Console) -> None:
    chosen = problem(options.problem)
    scale = options.scale or next(iter(chosen.scales))
    lams = Lams(None) if options.lams is None else parse_lams(options.lams, chosen.scale(scale))
    runs = specs(
        chosen,
        options.scale or next(iter(chosen.scales)),
        methods=None if options.methods is None else [_method(name) for name in options.methods.split(",") if name],
        lams=lams.values,
        relative=lams.relative,
        rhos=None if options.rhos is None else numbers(options.rhos),
        seeds=None if options.seeds is None else _seeds(options.seeds),
        settings=_settings(options.set),
        main_alone=True,
    )
    if records := _train(options, console, chosen, runs, lams.limit):
        # the report of a large sweep must survive a small one: it covers both, or is in another folder
        sweeps = select_sweeps(options.folder, options.problem, [scale])
        (swept,) = (sweep for sweep in sweeps if sweep.settings == runs[0].settings)
        _write_report(swept, options.folder / "report", console, missing=max(len(runs) - len(records), 0))
        _raise_if_failed(records)


def _method(name: str) -> str:
    """The name of a method; one of the user's own, given as a reference, is registered first."""
    return register_method(load(name, type, "a method, which is a class")) if is_reference(name) else name


def _train(
    options: argparse.Namespace, console: Console, chosen: Problem, runs: list[RunSpec], limit: int | None = None
) -> list[RunRecord]:
    """Train the runs and return their records; of processes that train together only the leader has any."""
    from gradsurgery.lab.sweeps import ProgressBar, RayOptions, ray_connection, sweep
    from gradsurgery.lab.sweeps.adaptive import train_adaptively

    if options.gpus_per_run is not None and options.ray is None:
        raise UserError("--gpus-per-run goes with --ray: on one machine, each accelerator trains one run")
    ray = None if options.ray is None else RayOptions(options.ray or None, options.gpus_per_run or 0)
    train = partial(
        sweep,
        chosen,
        folder=options.folder,
        cores_per_run=options.cores_per_run,
        ray=ray,
        data_dir=options.data_dir,
        checkpoint_every=options.checkpoint_every,
    )
    workers = options.workers
    if options.process:
        from gradsurgery.lab.train.multihost import is_leader, join

        if (options.workers, options.cores_per_run, ray) != (None, None, None):
            raise UserError(
                "processes that train together share every run, so --process takes no --workers, no --cores-per-run "
                "and no --ray"
            )
        if limit is not None:
            raise UserError("an adaptive grid depends on results that only the first process has: give --lams in full")
        join(options.process)
        workers = 0
        if not is_leader():
            with TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
                train(runs, store, listener=ProgressBar(Console(quiet=True)), workers=workers)
            return []
    with ray_connection(ray), Store(_store_path(options)) as store, ProgressBar(console) as bar:
        train_some = partial(train, store=store, listener=bar, workers=workers)
        return train_some(runs) if limit is None else train_adaptively(runs, train_some, limit)


def _raise_if_failed(records: Sequence[RunRecord]) -> None:
    failed = [record for record in records if record.status == "failed"]
    if failed:
        reason = " ".join(str(failed[0].info.get("reason", "")).split())
        raise FailedRunsError(
            f"{len(failed)} of {len(records)} runs failed ({reason}): the same command tries them again, and with "
            "--workers 0 shows the traceback"
        )


def _report(options: argparse.Namespace, console: Console) -> None:
    from gradsurgery.lab.reports.index import write_index

    scales = options.scale.split(",") if options.scale else ()
    sweeps = [sweep for name in options.problems for sweep in select_sweeps(options.folder, name, scales)]
    folder = options.folder / "report"
    reports = {}
    for sweep in sweeps:
        if len(sweeps) > 1:
            console.print(sweep.title, style="bold", soft_wrap=True)
        reports[_write_report(sweep, folder, console)] = sweep.title, sweep.records
    if len(reports) > 1:
        console.print(f"index: {write_index(reports, folder)}", soft_wrap=True)


def _write_report(sweep: StoredSweep, folder: Path, console: Console, *, missing: int = 0) -> Path:
    """Print the summary of a sweep, and write its report into a subfolder.

    Args:
        sweep: the runs.
        folder: where all reports are.
        console: for the summary.
        missing: how many runs of the sweep are not stored.
    """
    from gradsurgery.lab.reports.report import write_report
    from gradsurgery.lab.reports.terminal import print_recommendations, print_summary

    print_summary(sweep.records, console, missing=missing)
    print_recommendations(sweep.records, console)
    declared = sweep.problem
    page = write_report(
        sweep.records,
        folder / sweep.folder_name,
        sweep.title,
        draw=declared.draw if declared else None,
        about={"Main": declared.main, "Aux": declared.aux} if declared else None,
        missing=missing,
    )
    console.print(f"report: {page}", soft_wrap=True)
    return page


def _recommend(options: argparse.Namespace, console: Console) -> None:
    from gradsurgery.lab.reports.terminal import print_recommendations

    allow, absolute = options.allow
    sweeps = select_sweeps(options.folder, options.problem, [options.scale] if options.scale else (), status="done")
    for sweep in sweeps:
        try:
            if len(sweeps) > 1:
                console.print(sweep.title, style="bold", soft_wrap=True)
            print_recommendations(sweep.records, console, allow=allow, absolute=absolute, required=True)
        except UserError as error:
            if len(sweeps) == 1:
                raise
            console.print(f"  {error}", soft_wrap=True)


def _export(options: argparse.Namespace, console: Console) -> None:
    records = select_runs(options.folder, options.problem, [options.scale] if options.scale else (), status="done")
    try:
        (export_tensorboard if options.tensorboard else export_table)(records, options.path)
    except ValueError as error:
        raise UserError(str(error)) from error
    console.print(f"{len(records)} runs written to {options.path}", soft_wrap=True)


def _store_path(options: argparse.Namespace) -> Path:
    return options.folder / "store.sqlite"


def _allowance(text: str) -> tuple[float, bool]:
    """``2%`` as (0.02, relative), or ``0.01`` as (0.01, absolute)."""
    try:
        allow = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        allow = math.nan
    if not 0 <= allow < math.inf:
        raise UserError(f"the allowance for main is a number from 0 or a percentage such as 2%, but got {text}")
    return allow, not text.endswith("%")


def _workers(text: str) -> int:
    return _whole_number("the number of workers", text, least=0)


def _cores(text: str) -> int:
    return _whole_number("the number of cores per run", text, least=1)


def _gpus(text: str) -> int:
    return _whole_number("the number of GPUs per run", text, least=0)


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
