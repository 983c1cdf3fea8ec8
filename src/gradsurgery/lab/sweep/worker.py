"""Train a run in this process, and report what happens as messages."""

import json
import os
import platform
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.method import make_method, registered_methods
from gradsurgery.lab.objective import objective_info
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import Metrics, Run, RunSpec, Setting
from gradsurgery.lab.sweep.messages import Ended, Message, Raised, Row, Started
from gradsurgery.method import Method


@dataclass(frozen=True)
class Task:
    """A run to train."""

    spec: RunSpec
    folder: Path
    """For its checkpoints."""
    may_be_over: bool
    """Whether an earlier attempt may have recorded all rows; else there must be at least one."""
    log: Path = Path(os.devnull)
    """Where a worker or a job sends its output."""


@dataclass(frozen=True)
class Trainer:
    """Trains the runs of a sweep, in any process."""

    problem: Problem
    cores: int
    """The cores of each run, for its record."""
    data_dir: Path | None = None
    """A folder whose subfolders stand in for hub ids."""
    checkpoint_every: float = 60.0
    """Seconds between two checkpoints of a run."""
    methods: Mapping[str, type[Method]] = field(default_factory=registered_methods)
    """The user's methods, which other processes have to register."""

    def train(self, task: Task, flush: Callable[[], None]) -> Iterator[Message]:
        """Train a run; raises what it raises. ``flush`` waits until all rows so far are on the disk."""
        began = time.monotonic()
        task.folder.mkdir(parents=True, exist_ok=True)
        run = Run(
            task.spec,
            make_method(task.spec.method, task.spec.lam, task.spec.rho),
            self.problem.typed_settings(task.spec.settings),
            task.folder,
            data_dir=self.data_dir,
            checkpoint_every=self.checkpoint_every,
            flush=flush,
        )
        rows = map(_numbers, self.problem.train(run))
        first = next(rows, None)  # what the function builds before its first row may fail: only then has training begun
        if first is None and not task.may_be_over:
            raise UserError(f"training {self.problem.name} ended without a row: yield at least one")
        yield Started({**_versions(), "cores": self.cores})
        for metrics in rows if first is None else chain([first], rows):
            yield Row(run.progress, metrics)
        yield Ended({"seconds": time.monotonic() - began, **_outcome(self.problem, run)})


def describe_error(error: BaseException) -> Raised:
    """The last message of a run that raised an error."""
    if isinstance(error, UserError):
        return Raised(str(error), is_mistake=True)
    reason = f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()  # of names of files
    return Raised(reason, traceback="".join(traceback.format_exception(error)))


@cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for name in ("gradsurgery", "jax", "optax", "flax", "torch", "numpy", "datasets", "tokenizers"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _numbers(row: Metrics) -> Metrics:
    """A row as plain numbers: tensors cannot be sent between processes."""
    try:
        values = {name: value.item() if hasattr(value, "item") else value for name, value in row.items()}
        if any(isinstance(value, str | bytes) for value in values.values()):
            raise TypeError("text is not a number")
        return {name: float(value) for name, value in values.items()}
    except Exception as error:  # whatever a tensor raises
        raise TypeError(f"a row must be a dict of numbers by name; got {row!r:.200}") from error


def _outcome(problem: Problem, run: Run) -> dict[str, Setting]:
    """The info that a trained run adds to its record."""
    samples = json.dumps([asdict(sample) for sample in run.samples])
    info = {**({"device": str(run.device)} if run.device else {}), **({"samples": samples} if run.samples else {})}
    return {**info, **objective_info(problem.objectives)}
