"""The command line: list, run, sweep, report, recommend, export, claims.

What takes long to import is imported inside the commands that need it, so that help, ``list`` and mistakes in the
arguments answer at once.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from gradsurgery.lab import arguments, commands
from gradsurgery.lab.errors import FailedRunsError, UserError
from gradsurgery.lab.store import StoreError

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
  gradsurgery claims                                           measure the claims of the paper

Everything is stored in --folder (default: ./runs). If a sweep is killed, the same command continues it."""


class _Parser(argparse.ArgumentParser):
    """Raises ``UserError`` instead of printing the usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} ({self.prog} --help shows examples)")


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 2 for a mistake of the user, 1 for any other failure."""
    # what users and stores contribute is printed as it is, never parsed
    console = Console(markup=False, highlight=False, emoji=False)
    errors = Console(markup=False, highlight=False, emoji=False, stderr=True)

    def print_error(error: Exception) -> None:
        errors.print(f"gradsurgery: {error}", style="red", soft_wrap=True)

    try:
        options = _parser().parse_args(given)
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
    subparsers = parser.add_subparsers(
        required=True, metavar="list | run | sweep | report | recommend | export | claims"
    )

    def add(name: str, command: Callable[[argparse.Namespace, Console], None], text: str) -> argparse.ArgumentParser:
        subparser = subparsers.add_parser(
            name, help=text, description=text, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        subparser.set_defaults(command=command)
        return subparser

    listed = add("list", commands.list_problems, "list the problems and their default grids; or all about one of them")
    listed.add_argument("problem", nargs="?", help="show its settings, data and methods")

    run = add("run", commands.run, "train one method with one weight")
    _add_training_arguments(run)
    run.add_argument("--method", required=True, help="a name from gradsurgery list")
    run.add_argument("--lam", help="weight of the auxiliary loss")
    run.add_argument("--rho", help="speed of the moving average")
    run.add_argument("--seed", default="0", help="default: 0")

    swept = add("sweep", commands.sweep, "train a grid of methods, weights and seeds, and write a report")
    _add_training_arguments(swept)
    swept.add_argument("--methods", help="for example mixed,bloop")
    swept.add_argument("--lams", help="weights of the auxiliary loss, such as 0,1e-4:1:9log or relative:0.03:3:7log")
    swept.add_argument("--rhos", help="speeds of the moving average, for example 0.01,0.1")
    swept.add_argument("--seeds", help="for example 0,1,2")

    report = add("report", commands.report, "write the report of the stored runs, and an index of several reports")
    _add_problem_arguments(report, several=True)
    report.add_argument("--scale", help="demo (default), laptop or paper; or several, such as demo,laptop")

    recommend = add("recommend", commands.recommend, "name the best λ of each method for a given loss in main")
    _add_problem_arguments(recommend)
    recommend.add_argument("--scale", help="demo (default), laptop or paper")
    recommend.add_argument(
        "--allow",
        type=arguments.allowance,
        default=(0.02, False),
        metavar="2%",
        help="how much worse than main alone main may be: 2%% (default), or a difference of losses such as 0.01",
    )

    export = add("export", commands.export, "write the stored runs as parquet, CSV or TensorBoard logs")
    _add_problem_arguments(export)
    export.add_argument("path", type=Path, help="a .parquet or .csv file, or a folder with --tensorboard")
    export.add_argument("--scale", help="only this scale")
    export.add_argument("--tensorboard", action="store_true", help="write event files below a folder")

    claims = add("claims", commands.claims, "measure the claims of the paper, and print the verdicts")
    claims.add_argument("ids", nargs="*", metavar="ID", help="such as C12 C13 (default: all)")
    claims.add_argument("--scale", help="demo (default) or laptop")
    _add_folder_argument(claims)
    _add_worker_arguments(claims)
    claims.add_argument("--markdown", type=Path, metavar="FILE", help="write the page in Markdown too")
    claims.add_argument("--export", type=Path, metavar="FILE", help="write the runs behind the verdicts as parquet")
    claims.add_argument("--from", type=Path, dest="records", metavar="FILE", help="train nothing, read an --export")
    return parser


def _add_problem_arguments(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    meaning = "a name from gradsurgery list; or your own, as file.py:name or module:name"
    if several:
        parser.add_argument("problems", nargs="+", metavar="problem", help=meaning)
    else:
        parser.add_argument("problem", help=meaning)
    _add_folder_argument(parser)


def _add_folder_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--folder", type=Path, default=Path("runs"), help="where everything is stored (default: ./runs)"
    )


def _add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", type=Path, help="a folder whose subfolders stand in for hub ids")
    parser.add_argument(
        "--checkpoint-every", type=arguments.seconds, default=60.0, metavar="SECONDS", help="default: 60"
    )
    parser.add_argument(
        "--workers",
        type=arguments.workers,
        help="processes that share the runs (default: one per core); 0 trains in this one",
    )


def _add_training_arguments(parser: argparse.ArgumentParser) -> None:
    _add_problem_arguments(parser)
    parser.add_argument("--scale", help="demo (default), laptop or paper; one of your own has a single scale")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting")
    _add_worker_arguments(parser)
    parser.add_argument(
        "--cores-per-run",
        "--cpus-per-run",
        type=arguments.cores,
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
    parser.add_argument(
        "--gpus-per-run", type=arguments.gpus, metavar="N", help="with --ray: the GPUs of each run (default: 0)"
    )
    parser.add_argument("--process", metavar="0/2@HOST:PORT", help="one of several that train together; or auto")


if __name__ == "__main__":
    sys.exit(main())
