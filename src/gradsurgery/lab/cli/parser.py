"""The commands of the command line and their options, with the help that describes them."""

import argparse
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from rich.console import Console

from gradsurgery import __version__
from gradsurgery.lab.cli import arguments, commands, keeping
from gradsurgery.lab.cli.help_text import fit
from gradsurgery.lab.errors import UserError

Arguments: TypeAlias = argparse._ActionsContainer
"""A parser, or a group of its arguments."""

_START = """get started:
  gradsurgery list                              see the problems and their grids
  gradsurgery sweep lipschitz                   train a grid in about a minute, and write a report
  gradsurgery status                            see what is stored, in training or failed
  gradsurgery recommend lipschitz --allow 2%    choose λ
  gradsurgery sweep my_problem.py:smooth        the same with your problem

gradsurgery COMMAND --help has the options and examples of a command. Everything is stored in ./runs, or in --folder.
If a sweep is killed, the same command continues it."""

_EXAMPLES = {
    "list": """
  gradsurgery list                          all problems and their default grids
  gradsurgery list lipschitz                settings, data and methods of one problem
  gradsurgery list my_problem.py:smooth     the same for your problem""",
    "run": """
  gradsurgery run lipschitz --method bloop --lam 0.1
  gradsurgery run lipschitz --method bloop --lam relative:0.3 --rho 0.1 --seed 1
  gradsurgery run lipschitz --method mixed --lam 0 --set epochs=5""",
    "sweep": """
  gradsurgery sweep lipschitz                                 the default grid, then a report
  gradsurgery sweep lipschitz --methods mixed,bloop --lams 0,1e-4:1:9log --rhos 0.01,0.1 --seeds 0-2
  gradsurgery sweep lipschitz --lams relative:0.03:3:7log     λ in units of main's gradient
  gradsurgery sweep lipschitz --lams auto:9                   up to nine λ, placed where the front has gaps
  gradsurgery sweep lipschitz --methods bloop,pcd --taus 0.1,0.3,1
  gradsurgery sweep three.py:ranked --lams 0.1,1 --lams 0.01,0.1    two auxiliary losses: λ₁, then λ₂
  gradsurgery sweep lipschitz --scale laptop --data-dir data  real data, from a folder or the Hugging Face hub
  gradsurgery sweep lipschitz --dry-run                       what it would train, and how much is stored
  gradsurgery sweep lipschitz --set epochs=5 --set batch=64   other settings; gradsurgery list lipschitz shows them
  gradsurgery sweep lipschitz --set learning_rate=0.001,0.003  one answer across both
  gradsurgery sweep lipschitz --allow 5%                      stop runs whose main ends more than 5 % above main alone
  gradsurgery sweep my_problem.py:smooth                      your problem, from a file or a module
  gradsurgery sweep lipschitz --methods bloop,my_methods.py:damped
  gradsurgery sweep my_problem.py:smooth --ray --gpus-per-run 1
  gradsurgery sweep my_problem.py:smooth --slurm timeout_min=60 gpus_per_node=1 slurm_partition=gpu
  gradsurgery sweep weights --process 0/2@host:1234           on the first of two machines that train each run together

If a sweep is killed, the same command continues it. Runs that are stored already are not trained again.""",
    "status": """
  gradsurgery status
  gradsurgery status --folder elsewhere""",
    "report": """
  gradsurgery report lipschitz                                write the report again
  gradsurgery report lipschitz weights --scale demo,laptop    four reports, and an index that shows them side by side
  gradsurgery report mine                                     runs that your own script stored with lab.Store
  gradsurgery report mine --folder /theirs --output .         of a folder that you cannot write""",
    "recommend": """
  gradsurgery recommend lipschitz --allow 2%      main may be 2 % worse than with λ = 0
  gradsurgery recommend lipschitz --allow 0.01    main may be worse by 0.01
  gradsurgery recommend mine --maximise main=accuracy_test    limit the accuracy instead of main's loss
  gradsurgery recommend lipschitz --set learning_rate=0.001,0.003    one answer across both""",
    "export": """
  gradsurgery export lipschitz runs.parquet       one row per run and step; pandas.read_parquet reads it
  gradsurgery export lipschitz runs.csv
  gradsurgery export lipschitz events --tensorboard
  gradsurgery export lipschitz . --wandb             then: wandb sync wandb/offline-*
  gradsurgery export lipschitz mlflow.db --mlflow    then: mlflow ui --backend-store-uri sqlite:///mlflow.db
  gradsurgery export lipschitz optuna.db --optuna    then: optuna-dashboard sqlite:///optuna.db""",
    "delete": """
  gradsurgery delete mine --failed                     the runs that failed; the next sweep trains them again anyway
  gradsurgery delete mine --methods bloop --lams 10    one λ of one method
  gradsurgery delete mine --yes                        all runs of a problem, without a question""",
    "rename": """
  gradsurgery rename mine smooth""",
    "merge": """
  gradsurgery merge machine1/runs machine2/runs --folder runs    the stores of two machines into ./runs""",
}

_SHARED: dict[str, dict[str, Any]] = {
    "problem": {"help": "a name from gradsurgery list, or your own as file.py:name or module:name"},
    "--folder": {
        "type": Path,
        "default": Path("runs"),
        "help": "where runs and reports are stored (default: ./runs)",
    },
    "--scale": {
        "type": arguments.split_names,
        "default": (),
        "metavar": "SCALE,…",
        "help": "demo (default), laptop or paper; or several: demo,laptop",
    },
    "--set": {
        "action": "append",
        "default": [],
        "metavar": "NAME=VALUE",
        "help": "only runs with this value of a setting; NAME=VALUE,VALUE compares several values in one answer",
    },
    "--allow": {
        "type": arguments.parse_allowance,
        "default": "2%",
        "metavar": "AMOUNT",
        "help": "how much worse main may be than with λ = 0: 2%% (default), or a difference such as 0.01",
    },
    "--maximise": {
        "type": arguments.parse_metric,
        "action": "append",
        "default": [],
        "metavar": "LOSS=METRIC",
        "help": "judge main or aux by a metric instead of its loss: main=accuracy_test",
    },
    "--minimise": {
        "type": arguments.parse_metric,
        "action": "append",
        "default": [],
        "metavar": "LOSS=METRIC",
        "help": "judge main or aux by a metric instead of its loss: aux=perplexity_test",
    },
    "--data-dir": {"type": Path, "metavar": "FOLDER", "help": "its subfolders stand in for hub datasets"},
    "--workers": {
        "type": int,
        "metavar": "N",
        "help": "worker processes (default: one per core or accelerator); 0 trains in this process",
    },
    "--checkpoint-every": {
        "type": arguments.parse_duration,
        "default": 60.0,
        "metavar": "TIME",
        "help": "time between two checkpoints of a run, such as 90s or 30m (default: 60s)",
    },
}
"""The arguments that several commands take."""


class _Parser(argparse.ArgumentParser):
    """Raises ``UserError`` instead of printing the usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} ({self.prog} --help shows examples)")


Command: TypeAlias = Callable[[argparse.Namespace, Console], None]
Subparsers: TypeAlias = "argparse._SubParsersAction[_Parser]"


def make_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """The parser, with the function of each command as ``command`` of the namespace that it returns.

    Commands of installed packages are loaded unless the arguments name one of the lab's.
    """
    parser = _Parser(
        prog="gradsurgery",
        description=fit("Train a grid of methods and weights on a problem, compare the Pareto fronts, and choose λ."),
        epilog=fit(_START),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gradsurgery {__version__}")
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_lab_commands(subparsers)
    if not argv or argv[0] not in subparsers.choices:
        _add_installed_commands(subparsers)
    return parser


def add_command(
    subparsers: Subparsers, name: str, command: Command, summary: str, *, examples: str, details: str = ""
) -> argparse.ArgumentParser:
    """Add a command, and return the parser of its arguments."""
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=fit(f"{summary[0].upper()}{summary[1:]}.{details}"),
        epilog=fit(f"examples:{examples}"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=command)
    return parser


def _add_installed_commands(subparsers: Subparsers) -> None:
    """Add the commands that packages offer by entry points in the group ``gradsurgery.commands``.

    The entry point is a function that gets the subparsers, and adds its command with ``add_command``.
    """
    for point in entry_points(group="gradsurgery.commands"):
        try:
            point.load()(subparsers)
        except Exception as error:  # a broken package must not hide the other commands
            sentence = str(error)
            parser = add_command(subparsers, point.name, _explain(sentence), sentence, examples="")
            parser.add_argument("ignored", nargs="*")


def _explain(sentence: str) -> Command:
    def explain(options: argparse.Namespace, console: Console) -> None:
        raise UserError(sentence)

    return explain


def _add_lab_commands(subparsers: Subparsers) -> None:
    def add(name: str, command: Command, summary: str, details: str = "") -> argparse.ArgumentParser:
        return add_command(subparsers, name, command, summary, examples=_EXAMPLES[name], details=details)

    listing = add("list", commands.list_problems, "list the problems, or describe one of them")
    listing.add_argument("problem", nargs="?", help="show its grids, settings, data and methods")

    run = add("run", commands.run, "train one method with one λ and one seed")
    add_shared(run, "problem")
    run.add_argument("--method", required=True, help="a name from gradsurgery list PROBLEM, or file.py:name")
    run.add_argument(
        "--lam",
        action="append",
        metavar="λ",
        help="weight of the auxiliary loss, such as 0.1 or relative:0.3; of several losses, given once for each",
    )
    run.add_argument("--tau", metavar="τ", help="for pcd, in place of λ: the share of aux's own progress, from 0 to 1")
    run.add_argument("--rho", metavar="ρ", help="speed of the moving average, above 0 and at most 1")
    run.add_argument("--seed", default="0", metavar="N", help="default: 0")
    _add_training_options(run)

    sweep = add(
        "sweep",
        commands.sweep,
        "train a grid of methods, λ and seeds, and write a report",
        "\nMain alone (λ = 0) is trained too, once for all methods.",
    )
    add_shared(sweep, "problem")
    grid = sweep.add_argument_group("grid", "What you leave out comes from the problem.")
    grid.add_argument("--methods", metavar="NAME,…", help="such as mixed,bloop; your own as file.py:name")
    grid.add_argument(
        "--lams",
        action="append",
        metavar="λ,…",
        help="weights of the auxiliary loss, such as 0,1e-4:1:9log or relative:auto:9; "
        "of several losses, given once for each, or once for all",
    )
    grid.add_argument("--taus", metavar="τ,…", help="for pcd, in place of λ: shares of aux's own progress, from 0 to 1")
    grid.add_argument("--rhos", metavar="ρ,…", help="speeds of the moving average, such as 0.01,0.1")
    grid.add_argument("--seeds", metavar="N,…", help="such as 0,1 or 0-4")
    _add_training_options(sweep)
    sweep.add_argument("--dry-run", action="store_true", help="show what would be trained, and train nothing")

    status = add("status", keeping.status, "show how many runs are done, in training or failed, and the time left")
    add_shared(status, "--folder")

    report = add("report", commands.report, "write a report on stored runs, and an index of several reports")
    report.add_argument("problems", nargs="+", metavar="problem", help=_SHARED["problem"]["help"])
    add_shared(report, "--scale", "--set", "--maximise", "--minimise", "--allow")
    report.add_argument("--output", type=Path, metavar="FOLDER", help="where to write it (default: report in --folder)")
    add_shared(report, "--folder")

    recommend = add("recommend", commands.recommend, "recommend a λ for each method")
    add_shared(recommend, "problem", "--allow", "--scale", "--set", "--maximise", "--minimise", "--folder")

    export = add("export", commands.export, "write stored runs for pandas, TensorBoard, W&B, MLflow or Optuna")
    add_shared(export, "problem")
    export.add_argument("path", type=Path, help="a .parquet or .csv file; or what the options below write")
    export.set_defaults(format="table")
    formats = export.add_mutually_exclusive_group()
    for name, meaning in (
        ("tensorboard", "a folder with TensorBoard event files"),
        ("wandb", "a folder with offline runs of Weights & Biases, for wandb sync"),
        ("mlflow", "an MLflow database in SQLite"),
        ("optuna", "an Optuna database in SQLite; a study with two objectives, whose trials are the runs"),
    ):
        formats.add_argument(f"--{name}", dest="format", action="store_const", const=name, help=meaning)
    add_shared(export, "--scale", help="export this scale only")
    add_shared(export, "--folder")

    delete = add("delete", keeping.delete, "delete stored runs, after showing them and asking")
    add_shared(delete, "problem")
    add_shared(delete, "--scale", help="only at this scale")
    delete.add_argument("--methods", metavar="NAME,…", help="only these methods")
    delete.add_argument(
        "--lams",
        action="append",
        metavar="λ,…",
        help="only these λ, such as 0.1; of several losses, given once for each",
    )
    delete.add_argument("--taus", metavar="τ,…", help="only these τ")
    delete.add_argument("--seeds", metavar="N,…", help="only these seeds, such as 0,1 or 0-4")
    delete.add_argument("--failed", action="store_true", help="only runs that failed")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    add_shared(delete, "--folder")

    rename = add("rename", keeping.rename, "rename a problem in the store")
    add_shared(rename, "problem")
    rename.add_argument("name", help="the new name")
    add_shared(rename, "--folder")

    merge = add(
        "merge",
        keeping.merge,
        "copy the runs of other stores into one",
        "\nRuns that are done, stopped or failed are copied. Of a run in both stores, the one that got further is kept:"
        " done before stopped before failed. If both got as far, the one in --folder is kept.",
    )
    merge.add_argument("sources", nargs="+", type=Path, metavar="source", help="the folder of a store")
    add_shared(merge, "--folder")


def add_shared(parser: Arguments, *names: str, **changes: Any) -> None:
    """Add arguments that several commands take, such as ``problem`` and ``--folder``, with these changes."""
    for name in names:
        parser.add_argument(name, **_SHARED[name] | changes)


def _add_training_options(parser: argparse.ArgumentParser) -> None:
    problem = parser.add_argument_group("problem")
    problem.add_argument("--scale", help="demo (default), laptop or paper; your own problem has one scale, default")
    add_shared(problem, "--set", help="change a setting; may be repeated. NAME=VALUE,VALUE sweeps over several values")
    add_shared(problem, "--data-dir")
    add_shared(parser, "--folder")
    training = parser.add_argument_group("training")
    add_shared(training, "--workers", "--checkpoint-every")
    training.add_argument(
        "--cores-per-run",
        "--cpus-per-run",
        type=int,
        metavar="N",
        help="cores of each run (default: 1; with accelerators, an equal share); results depend on it",
    )
    training.add_argument(
        "--time-limit",
        type=arguments.parse_duration,
        metavar="TIME",
        help="end a run that takes longer, such as 90s, 30m or 2h; it is recorded as failed",
    )
    training.add_argument(
        "--again", action="store_true", help="if your code has changed, drop stored runs of the older code"
    )
    training.add_argument(
        "--keep", action="store_true", help="if your code has changed, mix old and new runs on purpose"
    )
    training.add_argument(
        "--allow",
        type=arguments.parse_allowance,
        metavar="AMOUNT",
        help="how much worse main may be than with λ = 0, such as 5%%: stop runs that cannot come back within it",
    )
    training.add_argument("--no-stop", dest="stop", action="store_false", help="train all runs to their end")
    cluster = parser.add_argument_group("several machines")
    cluster.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="train on a Ray cluster (default: the one in RAY_ADDRESS, or a local Ray)",
    )
    cluster.add_argument(
        "--slurm",
        nargs="*",
        metavar="NAME=VALUE",
        help="train each run as a Slurm job, with these parameters of submitit: timeout_min=60 slurm_partition=gpu",
    )
    cluster.add_argument(
        "--gpus-per-run",
        type=int,
        default=0,
        metavar="N",
        help="GPUs of each run, with --ray (default: 0)",
    )
    cluster.add_argument(
        "--process",
        metavar="I/N@HOST:PORT",
        help="this is process I of N that train each run together, with the first at HOST:PORT; or auto",
    )
