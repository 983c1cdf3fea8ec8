"""The code of a Ray task: train one run, and yield messages to the driver, which records them.

A task has a separate folder on its node. After a row, while the training function waits, its files are sent to the
driver, at most every ``checkpoint_every`` seconds. The next attempt of the run, on whichever node, gets them back.
"""

import pickle
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from gradsurgery.lab.local_modules import install_sources
from gradsurgery.lab.method import register_method
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.sweep.messages import Message, Row
from gradsurgery.lab.sweep.ray.folder_copy import fingerprint, pack, unpack
from gradsurgery.lab.sweep.worker import Task, WorkerArguments, catch_errors, train_run


@dataclass(frozen=True)
class TaskArguments:
    """The arguments that all tasks of a sweep have in common."""

    sources: tuple[tuple[str, bytes], ...]
    """The user's own modules, by relative path."""
    pickled: bytes
    """The problem and the ``WorkerArguments``. Unpickling may import the modules."""


@dataclass(frozen=True)
class Saved:
    """A copy of the run's folder, for the next attempt."""

    files: bytes


def train_in_task(arguments: TaskArguments, spec: RunSpec, files: bytes) -> Iterator[Message | Saved]:
    """Train a run.

    Args:
        arguments: the same for all runs of a sweep.
        spec: the run.
        files: a copy of the run's folder from an earlier attempt; empty if there is none.
    """
    with TemporaryDirectory(prefix="gradsurgery-") as folder:
        task = Task(spec, Path(folder) / "run", may_be_over=bool(files))
        unpack(files, task.folder)
        saved, last_copy = fingerprint(task.folder), time.monotonic()
        for message in catch_errors(train_task(arguments, task)):
            yield message
            if not isinstance(message, Row) or time.monotonic() - last_copy < _load(arguments)[1].checkpoint_every:
                continue
            if (now := fingerprint(task.folder)) != saved:
                yield Saved(pack(task.folder))
                saved, last_copy = now, time.monotonic()


def train_task(arguments: TaskArguments, task: Task) -> Iterator[Message]:
    """Load the problem, and train a run; raises what it raises."""
    problem, worker = _load(arguments)
    yield from train_run(problem, task, worker, flush=lambda: None)  # the driver flushes before it keeps a copy


@lru_cache(maxsize=1)
def _load(arguments: TaskArguments) -> tuple[Problem, WorkerArguments]:
    """Unpickle the problem once for all runs of this process: its training function may cache what it builds."""
    install_sources(dict(arguments.sources))
    problem, worker = pickle.loads(arguments.pickled)
    for method in worker.methods.values():
        register_method(method)
    return problem, worker
