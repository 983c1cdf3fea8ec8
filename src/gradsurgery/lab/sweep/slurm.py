"""A sweep on a Slurm cluster: every run is a job of submitit, and this process, the driver, alone writes the store.

The folder of the sweep is on a disk that all nodes share. A job saves checkpoints there, and appends its messages to a
file that the driver reads. The file is kept until the run has ended. So if the driver is killed, the next sweep reads
what the job still wrote, and no row is lost that a checkpoint is ahead of.
"""

import os
import pickle
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradsurgery.lab.atomic import write_atomically
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.run import RunSpec, Setting
from gradsurgery.lab.sweep.attempt import Attempt, Leases
from gradsurgery.lab.sweep.cores import set_environment, thread_limits
from gradsurgery.lab.sweep.events import RunEvent, Stopped
from gradsurgery.lab.sweep.log import redirect_output
from gradsurgery.lab.sweep.messages import Message, Row
from gradsurgery.lab.sweep.shipment import Shipment, ship, train_elsewhere
from gradsurgery.lab.sweep.worker import Task, Trainer

try:
    import submitit
except ModuleNotFoundError as error:
    raise UserError('training on Slurm needs submitit: pip install "gradsurgery[slurm]"') from error

MOST_JOBS = 200
"""How many runs are submitted at once: each takes a lease, which is an open file."""
_POLL_SECONDS = 1.0


def train_on_slurm(
    trainer: Trainer, runs: Sequence[RunSpec], leases: Leases, *, parameters: Mapping[str, Setting]
) -> Generator[RunEvent]:
    """Train runs as jobs until all have ended. Runs that another sweep has leased are left to it.

    The parameters are those of ``submitit.AutoExecutor``; ``cluster="local"`` trains without Slurm.
    """
    if not runs:
        return
    shipment = ship(trainer, sources=True)
    folder = leases.store.path.parent / "slurm"
    executor = _executor(folder, {"name": trainer.problem.name, "cpus_per_task": trainer.cores, **parameters})
    jobs: list[_Job] = []
    pending = list(runs)
    try:
        while pending or jobs:
            while len(jobs) < MOST_JOBS and (taken := leases.take_next(pending)):
                if isinstance(taken, Stopped):
                    yield taken
                    continue
                jobs.append(_Job(taken, folder / f"{taken.spec.key}.messages"))
                with set_environment(thread_limits(trainer.cores)):  # jobs inherit it
                    yield from jobs[-1].submit(executor, shipment)
            for job in jobs:
                yield from job.watch()
            jobs = [job for job in jobs if not job.attempt.ended]
            if jobs or pending:
                time.sleep(_POLL_SECONDS)
    finally:
        for job in jobs:
            job.cancel()


@dataclass
class _Job:
    """A run in training: its job, and the file that the job appends messages to."""

    attempt: Attempt
    path: Path
    position: int = 0
    handle: Any = None

    def submit(self, executor: Any, shipment: Shipment) -> Iterator[RunEvent]:
        """Submit the run, unless the job of a driver that was killed has ended it."""
        if self._saved_handle.exists():
            self._end_abandoned()
            yield from self.read()
        if not self.attempt.ended:
            self.path.unlink(missing_ok=True)
            self.position = 0
            self.attempt.restart()
            self.handle = executor.submit(train_in_job, shipment, self.attempt.task, self.path)
            write_atomically(self._saved_handle, pickle.dumps(self.handle))

    def watch(self) -> Iterator[RunEvent]:
        """Record what the job has written; a job that is over before its run has failed."""
        is_over = self.attempt.ended or self.handle.done()  # before reading: its last message must be read, too
        if not self.attempt.ended:
            yield from self.read()
        if is_over and not self.attempt.ended:
            yield self.attempt.fail(f"job {self.handle.job_id} ended as {self.handle.state} before the run did")
        if self.attempt.ended:
            for path in (self.path, self._saved_handle):
                path.unlink(missing_ok=True)

    def read(self) -> Iterator[RunEvent]:
        """Record the messages since the last call."""
        for message in self._new_messages():
            if event := self.attempt.record_or_fail(message):
                yield event
            if self.attempt.ended:
                if isinstance(message, Row):  # refused, or stopped early
                    self.cancel()
                return

    def cancel(self) -> None:
        """End the job: its run continues from its checkpoint next time."""
        if self.handle is not None:
            self.handle.cancel(check=False)
        if not self.attempt.ended:
            self.attempt.close()

    @property
    def _saved_handle(self) -> Path:
        """Where the next driver finds the job if this one is killed."""
        return self.path.with_suffix(".job")

    def _end_abandoned(self) -> None:
        """Cancel the job of a driver that was killed, which may wait for a node or train."""
        abandoned = pickle.loads(self._saved_handle.read_bytes())
        abandoned.cancel(check=False)
        while not abandoned.done():
            time.sleep(_POLL_SECONDS)

    def _new_messages(self) -> Iterator[Message]:
        """The complete messages since the last call."""
        with suppress(FileNotFoundError, EOFError, pickle.UnpicklingError), self.path.open("rb") as file:
            file.seek(self.position)
            while True:
                message = pickle.load(file)
                self.position = file.tell()
                yield message


def train_in_job(shipment: Shipment, task: Task, path: Path) -> None:
    """The code of a job: train a run, and append its messages to a file."""
    redirect_output(task.log)
    with path.open("ab", buffering=0) as file:
        for message in train_elsewhere(shipment, task):
            file.write(pickle.dumps(message))
            os.fsync(file.fileno())  # before the training function saves a checkpoint


def _executor(folder: Path, parameters: Mapping[str, Setting]) -> Any:
    try:
        executor = submitit.AutoExecutor(folder / "jobs", cluster=str(parameters.get("cluster", "slurm")))
        executor.update_parameters(**{name: value for name, value in parameters.items() if name != "cluster"})
    except (AssertionError, NameError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"submitit cannot submit jobs with {dict(parameters)}: {str(error).splitlines()[0]}") from error
    return executor
