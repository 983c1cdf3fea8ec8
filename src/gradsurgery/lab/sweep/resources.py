"""What a sweep trains on: workers of this machine, this process, a Ray cluster or Slurm."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.run import RunSpec, Setting
from gradsurgery.lab.sweep.attempt import Leases
from gradsurgery.lab.sweep.cores import assign_places, available_cores
from gradsurgery.lab.sweep.events import RunEvent
from gradsurgery.lab.sweep.in_process import train_in_process
from gradsurgery.lab.sweep.supervisor import Supervisor
from gradsurgery.lab.sweep.worker import Trainer

Training: TypeAlias = Callable[[Trainer, Sequence[RunSpec], Leases], Generator[RunEvent]]
"""Trains runs until all have ended."""


@dataclass(frozen=True)
class Resources:
    """The arguments of ``lab.sweep`` of these names, checked against each other."""

    workers: int | None = None
    cores_per_run: int | None = None
    ray: bool | str = False
    slurm: bool | Mapping[str, Setting] = False
    gpus_per_run: int = 0
    process: str | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        elsewhere = bool(self.ray or self.slurm)
        _check_least("the number of workers", self.workers, 0)
        _check_least("the number of cores per run", self.cores_per_run, 1)
        _check_least("the number of GPUs per run", self.gpus_per_run, 0)
        if self.gpus_per_run and not self.ray:
            raise UserError("GPUs per run are for sweeps on Ray: on one machine, each accelerator trains one run")
        if self.workers == 0 and self.cores_per_run is not None:
            raise UserError("cores per run are for workers: leave them out to train without any")
        if self.time_limit is not None and not self.time_limit > 0:
            raise UserError(f"the time limit of a run must be a number of seconds above 0; got {self.time_limit}")
        if self.ray and self.slurm:
            raise UserError("runs train on Ray or on Slurm, not on both")
        if self.time_limit is not None and (self.workers == 0 or elsewhere or self.process is not None):
            raise UserError("a time limit needs worker processes on this machine, which are killed at its end")
        if elsewhere and self.workers is not None:
            raise UserError("workers are processes on this machine: leave them out to train on Ray or Slurm")
        if self.process is not None and (self.workers is not None or self.cores_per_run is not None or elsewhere):
            raise UserError(
                "processes that train together share every run: --process does not go with --workers, --cores-per-run, "
                "--ray or --slurm"
            )

    @contextmanager
    def open(self) -> Iterator[tuple[int, Training]]:
        """The cores of each run, and what trains runs on them until the block ends."""
        if self.ray:
            from gradsurgery.lab.sweep.ray.driver import Driver, connection  # loads ray

            with connection("" if self.ray is True else self.ray):  # one for all stages of an adaptive sweep
                yield (
                    self.cores_per_run or 1,
                    lambda trainer, runs, leases: Driver(trainer, leases, self.gpus_per_run).train(runs),
                )
        elif self.slurm:
            from gradsurgery.lab.sweep.slurm import train_on_slurm  # loads submitit

            parameters = {} if self.slurm is True else self.slurm
            yield self.cores_per_run or 1, partial(train_on_slurm, parameters=parameters)
        elif self.workers == 0 or self.process is not None:
            yield available_cores(), train_in_process
        else:
            places = assign_places(self.workers, self.cores_per_run)
            yield (
                places[0].cores,
                lambda trainer, runs, leases: Supervisor(trainer, leases, places, self.time_limit).train(runs),
            )


def _check_least(meaning: str, number: int | None, least: int) -> None:
    if number is not None and number < least:
        raise UserError(f"{meaning} must be a whole number from {least}; got {number}")
