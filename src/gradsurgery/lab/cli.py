"""The command line: list, run, sweep, report, export."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

from rich.console import Console
from rich.table import Table

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.grid import numbers, specs
from gradsurgery.lab.problems import PROBLEMS, problem
from gradsurgery.lab.reports.looks import number
from gradsurgery.lab.reports.report import write_report
from gradsurgery.lab.reports.terminal import print_summary
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.store.export import export, tensorboard
from gradsurgery.lab.store.sqlite import StoreError
from gradsurgery.lab.store.store import Store
from gradsurgery.lab.sweeps.progress import Watch
from gradsurgery.lab.sweeps.workers import sweep_together, useful_workers
from gradsurgery.lab.train.multihost import is_leader, join

_EXAMPLES = """examples:
  gradsurgery list                                             what there is to train
  gradsurgery run lipschitz --method bloop --lam 0.1           one run
  gradsurgery sweep lipschitz                                  methods x weights x seeds, then a report
  gradsurgery sweep lipschitz --methods mixed,bloop --lams 0,1e-4:1:9log --rhos 0.01,0.1 --seeds 0,1,2
  gradsurgery sweep lipschitz --scale laptop --data-dir data   real data, from a folder or the hub
  gradsurgery sweep lipschitz --set epochs=5 --set batch=64    any setting can be changed, and is recorded
  gradsurgery sweep weights --process 0/2@host:1234            the first of two machines that train together
  gradsurgery report lipschitz                                 draw again what is stored
  gradsurgery export lipschitz runs.parquet                    for pandas

Everything is kept in --folder (by default ./runs). A sweep that is killed goes on when it is started again."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} ({self.prog} --help shows examples)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 2 for a user's mistake, 1 if something in the way broke."""
    console, errors = Console(), Console(stderr=True)

    def tell(error: Exception) -> None:
        errors.print(f"gradsurgery: {error}", style="red", highlight=False, markup=False, soft_wrap=True)

    try:
        options = _parser().parse_args(arguments)
        command: Callable[[argparse.Namespace, Console], None] = options.command
        command(options, console)
    except UserError as error:
        tell(error)
        return 2
    except (StoreError, OSError) as error:
        tell(error)
        return 1
    except KeyboardInterrupt:
        errors.print("gradsurgery: stopped; the same command goes on from here", highlight=False)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gradsurgery",
        description="Train grids of methods and weights, and draw their Pareto fronts.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="list | run | sweep | report | export")

    def add(name: str, command: Callable[[argparse.Namespace, Console], None], text: str) -> argparse.ArgumentParser:
        one = commands.add_parser(
            name, help=text, description=text, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        one.set_defaults(command=command)
        return one

    add("list", _list, "the problems, their scales and the grids that they are swept over")
    for name, command, text in (
        ("run", _run, "train one method with one weight"),
        ("sweep", _sweep, "train a grid of methods, weights and seeds, and draw the report"),
    ):
        one = add(name, command, text)
        one.add_argument("problem", help="a name from gradsurgery list")
        one.add_argument("--scale", default="demo", help="demo (default), laptop or paper")
        one.add_argument("--data-dir", type=Path, help="a folder whose subfolders stand in for hub ids")
        one.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting")
        one.add_argument("--checkpoint-every", type=float, default=60.0, metavar="SECONDS", help="within a run")
        one.add_argument("--workers", type=_count, help="processes that share the runs (one a core)")
        one.add_argument("--process", metavar="0/2@HOST:PORT", help="of several that train together; or auto")
        _folder(one)
        if name == "run":
            one.add_argument("--method", required=True, help="a name from gradsurgery list")
            one.add_argument("--lam", help="weight of the auxiliary loss")
            one.add_argument("--rho", help="speed of bloop's average")
            one.add_argument("--seed", default="0", help="by default 0")
        else:
            one.add_argument("--methods", help="for example mixed,bloop")
            one.add_argument("--lams", help="for example 0,1e-4:1:9log")
            one.add_argument("--rhos", help="speeds of bloop's average, for example 0.01,0.1")
            one.add_argument("--seeds", help="for example 0,1,2")
    one = add("report", _report, "draw the report of what is stored")
    one.add_argument("problem", help="a name from gradsurgery list")
    one.add_argument("--scale", default="demo", help="demo (default), laptop or paper")
    _folder(one)
    one = add("export", _export, "write what is stored as parquet, CSV or TensorBoard logs")
    one.add_argument("problem", help="a name from gradsurgery list")
    one.add_argument("path", type=Path, help="a .parquet or .csv file, or a folder with --tensorboard")
    one.add_argument("--scale", help="only this scale")
    one.add_argument("--tensorboard", action="store_true", help="write event files below a folder")
    _folder(one)
    return parser


def _folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, default=Path("runs"), help="where everything is kept (./runs)")


def _store(options: argparse.Namespace) -> Store:
    return Store(options.folder / "store.sqlite")


def _list(options: argparse.Namespace, console: Console) -> None:
    for one in PROBLEMS.values():
        console.print(f"{one.name}: {one.title}", style="bold", highlight=False)
        console.print(f"  main: {one.main}; aux: {one.aux}", highlight=False)
        table = Table("scale", "methods", "λ", "ρ", "seeds", "runs", box=None, padding=(0, 2))
        for name, scale in one.scales.items():
            grids = _span(scale.lams), _span(scale.rhos), str(len(scale.seeds)), str(len(specs(one, name)))
            table.add_row(name, ", ".join(scale.methods), *grids)
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
    for record in _trained(options, console, runs):
        for name, value in record.final.items():
            console.print(f"{name:28} {value:.6g}", highlight=False)


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
    if records := _trained(options, console, runs):
        _reported(options, console, records)


def _report(options: argparse.Namespace, console: Console) -> None:
    problem(options.problem).scale(options.scale)
    with _store(options) as store:
        records = store.select(options.problem, options.scale)
    if not records:
        raise UserError(
            f"no run of {options.problem} at scale {options.scale} is stored in {options.folder}: "
            f"gradsurgery sweep {options.problem} --scale {options.scale} trains some"
        )
    _reported(options, console, records)


def _export(options: argparse.Namespace, console: Console) -> None:
    problem(options.problem)
    with _store(options) as store:
        records = store.select(options.problem, options.scale)
    try:
        (tensorboard if options.tensorboard else export)(records, options.path)
    except ValueError as error:
        raise UserError(str(error)) from error
    console.print(f"{len(records)} runs written to {options.path}", highlight=False, soft_wrap=True)


def _trained(options: argparse.Namespace, console: Console, runs: list[RunSpec]) -> list[RunRecord]:
    """The records of these runs; none in a process that only helps to train them."""
    train = partial(
        sweep_together,
        problem(options.problem),
        runs,
        folder=options.folder,
        data_dir=options.data_dir,
        checkpoint_every=options.checkpoint_every,
    )
    if options.process:
        if options.workers:
            raise UserError("processes that train together share every run, so --process takes no --workers")
        join(options.process)
    if not is_leader():
        with TemporaryDirectory() as folder, Store(Path(folder) / "store.sqlite") as store:
            train(store, watcher=Watch(Console(quiet=True)), workers=1)
        return []
    with _store(options) as store, Watch(console) as watch:
        return train(store, watcher=watch, workers=options.workers or useful_workers())


def _reported(options: argparse.Namespace, console: Console, records: list[RunRecord]) -> None:
    """Print the summary and write the report."""
    print_summary(records, console)
    folder = options.folder / "report" / f"{options.problem}-{options.scale}"
    title = f"{options.problem}, {options.scale}"
    one = problem(options.problem)
    page = write_report(records, folder, title, draw=one.draw, about={"Main": one.main, "Aux": one.aux})
    console.print(f"report: {page}", highlight=False, soft_wrap=True)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise UserError(f"the number of workers is a whole number from 1, but got {text}")
    return int(text)


def _seeds(text: str) -> tuple[int, ...]:
    found = numbers(text)
    if not all(0 <= seed < 2**31 and seed == int(seed) for seed in found):
        raise UserError(f"seeds are whole numbers from 0 to {2**31 - 1}, but got {text}")
    return tuple(int(seed) for seed in found)


def _settings(items: Sequence[str]) -> dict[str, str]:
    found = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals:
            raise UserError(f"a setting is given as NAME=VALUE, but got {item!r}")
        found[name] = value
    return found


if __name__ == "__main__":
    sys.exit(main())
