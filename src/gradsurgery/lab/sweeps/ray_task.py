"""The code of a Ray task: train one run, and yield messages to the driver, which records them.

A task has a folder of its own on its node. After a row, while the training function waits, its files are sent to the
driver, at most every ``checkpoint_every`` seconds. The next attempt of the run, on whichever node, gets them back.
"""

import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, TypeAlias

from gradsurgery.lab.declaration import Task
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.method import register_method
from gradsurgery.lab.run import Metrics, RunSpec, Setting
from gradsurgery.lab.sweeps.environment import environment
from gradsurgery.lab.sweeps.folder_copy import fingerprint, pack, unpack
from gradsurgery.lab.sweeps.local_modules import install_sources
from gradsurgery.lab.sweeps.options import TrainingOptions
from gradsurgery.lab.sweeps.recording import make_run, outcome, train


@dataclass(frozen=True)
class TaskArguments:
    """The arguments that all tasks of a sweep have in common."""

    sources: Mapping[str, bytes]
    """The user's own modules, by relative path."""
    pickled: bytes
    """Problem and options. Unpickling may import the modules."""


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
    options, task = _build(_Shared(arguments, spec.settings))
    unpack(files, folder)
    yield Started(environment(task, options.cores))
    run = make_run(spec, folder, options)
    saved, last_copy = fingerprint(folder), time.monotonic()
    for metrics in train(task, run, may_be_over=bool(files)):
        yield Row(run.progress, metrics)
        if time.monotonic() - last_copy >= options.checkpoint_every and (now := fingerprint(folder)) != saved:
            yield Saved(pack(folder))
            saved, last_copy = now, time.monotonic()
    yield Ended(outcome(run))


class _Shared(NamedTuple):
    """What the runs that one process trains with the same ``Task`` have in common."""

    arguments: TaskArguments
    settings: Mapping[str, Setting]


_last_built: tuple[_Shared, tuple[TrainingOptions, Task]] | None = None


def _build(shared: _Shared) -> tuple[TrainingOptions, Task]:
    """Build the problem once for all runs that this process trains."""
    global _last_built
    if _last_built is None or _last_built[0] != shared:
        install_sources(shared.arguments.sources)
        problem, options = pickle.loads(shared.arguments.pickled)
        for method in options.methods.values():
            register_method(method)
        _last_built = shared, (options, problem.build(shared.settings, options.data_dir))
    return _last_built[1]
