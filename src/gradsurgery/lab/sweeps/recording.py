"""Steps of training a run that workers and Ray tasks share: its folder, its start in the store, its rows, its end."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from gradsurgery.lab.declaration import Task
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.method import make_method
from gradsurgery.lab.run import Metrics, Run, RunSpec, Setting
from gradsurgery.lab.store import Store
from gradsurgery.lab.sweeps.options import TrainingOptions


def run_folder(spec: RunSpec, options: TrainingOptions) -> Path:
    """The folder of a run, kept until the run is done."""
    return options.folder / "checkpoints" / spec.key


def record_start(spec: RunSpec, store: Store, options: TrainingOptions, environment: dict[str, Setting]) -> None:
    """Mark a run as running. If it continues on other cores, ``info["cores"]`` lists both numbers: ``1, then 2``."""
    interrupted = store.get(spec.key)
    store.begin(spec, environment)
    if interrupted and is_resumed(run_folder(spec, options)):
        history, now = str(interrupted.info.get("cores", "unknown")).split(", then "), str(options.cores)
        if history != [now]:
            store.begin(spec, {"cores": ", then ".join(history if history[-1] == now else [*history, now])})


def make_run(spec: RunSpec, folder: Path, options: TrainingOptions, flush: Callable[[], None] | None = None) -> Run:
    """The run as its training function sees it."""
    method = make_method(spec.method, spec.lam, spec.rho)
    run = Run(spec, method, folder, checkpoint_every=options.checkpoint_every)
    if flush is not None:
        run.flush = flush
    return run


def is_resumed(folder: Path) -> bool:
    """True if an earlier attempt has left files in the folder of a run."""
    return folder.is_dir() and any(folder.iterdir())


def train(task: Task, run: Run, *, may_be_over: bool) -> Iterator[Metrics]:
    """Train a run and yield its rows as plain numbers: tensors cannot be sent between processes.

    Args:
        task: trains it.
        run: the run.
        may_be_over: whether an earlier attempt may have recorded all rows; else there must be at least one.
    """
    empty = not may_be_over
    for row in task.train(run):
        empty = False
        try:
            numbers = {name: float(value) for name, value in row.items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise TypeError(f"a row is a dict of numbers by name, but got {row!r:.200}") from error
        yield numbers
    if empty:
        raise UserError(f"training {run.spec.problem} ended without a row: yield at least one")


def outcome(run: Run) -> dict[str, Setting]:
    """The info that a trained run adds to its record."""
    return {"samples": json.dumps([asdict(sample) for sample in run.samples])} if run.samples else {}
