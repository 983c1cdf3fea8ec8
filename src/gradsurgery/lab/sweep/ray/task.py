"""The code of a Ray task: train one run, and yield messages to the driver, which records them.

A task has a separate folder on its node. After a row, while the training function waits, its files are sent to the
driver, at most every ``checkpoint_every`` seconds. The next attempt of the run, on whichever node, gets them back.
"""

import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.method import register_method
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import Metrics, RunSpec, Setting
from gradsurgery.lab.sweep.environment import environment
from gradsurgery.lab.sweep.ray.folder_copy import fingerprint, pack, unpack
from gradsurgery.lab.sweep.ray.local_modules import install_sources
from gradsurgery.lab.sweep.worker import WorkerArguments, make_run, outcome, train


@dataclass(frozen=True)
class TaskArguments:
    """The arguments that all tasks of a sweep have in common."""

    sources: tuple[tuple[str, bytes], ...]
    """The user's own modules, by relative path."""
    pickled: bytes
    """The problem and the ``WorkerArguments``. Unpickling may import the modules."""


@dataclass(frozen=True)
class Started:
    """Training has begun, in this environment."""

    environment: dict[str, Setting]


@dataclass(frozen=True)
class Row:
    """A row to record; this fraction of the run is trained."""

    fraction: float
    metrics: Metrics


@dataclass(frozen=True)
class Saved:
    """A copy of the run's folder, for the next attempt."""

    files: bytes


@dataclass(frozen=True)
class Ended:
    """Training has finished."""

    info: Mapping[str, Setting]


@dataclass(frozen=True)
class Raised:
    """The run raised an error."""

    reason: str
    mistake: str = ""
    """The sentence of a ``UserError``, which ends the sweep; empty for any other error."""


Message: TypeAlias = Started | Row | Saved | Ended | Raised


def train_in_task(arguments: TaskArguments, spec: RunSpec, files: bytes) -> Iterator[Message]:
    """Train a run.

    Args:
        arguments: the same for all runs of a sweep.
        spec: the run.
        files: a copy of the run's folder from an earlier attempt; empty if there is none.
    """
    try:
        with TemporaryDirectory(prefix="gradsurgery-") as folder:
            yield from _train(arguments, spec, files, Path(folder) / "run")
    except UserError as error:
        yield Raised(f"UserError: {error}", mistake=str(error))
    except Exception as error:
        yield Raised(f"{type(error).__name__}: {error}")


def _train(arguments: TaskArguments, spec: RunSpec, files: bytes, folder: Path) -> Iterator[Message]:
    problem, worker = _load(arguments)
    unpack(files, folder)
    run = make_run(problem, spec, folder, worker)
    saved, last_copy = fingerprint(folder), time.monotonic()
    rows = train(problem, run, may_be_over=bool(files))
    first = next(rows, None)  # what the function builds before its first row may fail: only then has training begun
    yield Started(environment(worker.cores))
    for metrics in rows if first is None else chain([first], rows):
        yield Row(run.progress, metrics)
        if time.monotonic() - last_copy >= worker.checkpoint_every and (now := fingerprint(folder)) != saved:
            yield Saved(pack(folder))
            saved, last_copy = now, time.monotonic()
    yield Ended(outcome(problem, run))


@lru_cache(maxsize=1)
def _load(arguments: TaskArguments) -> tuple[Problem, WorkerArguments]:
    """Unpickle the problem once for all runs of this process: its training function may cache what it builds."""
    install_sources(dict(arguments.sources))
    problem, worker = pickle.loads(arguments.pickled)
    for method in worker.methods.values():
        register_method(method)
    return problem, worker
