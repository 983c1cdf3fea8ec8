"""Divide cores and accelerators among workers.

Rounding depends on the number of threads, and training amplifies it: a sum over four million elements already differs
between one core and two. So every run trains with the same number of threads, however few runs are left to train. Which
cores they run on is left to the system: two sweeps that chose for themselves would choose the same.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import takewhile
from typing import TypeVar

from gradsurgery.lab.errors import UserError

T = TypeVar("T")


def available_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Place:
    """Where a worker trains."""

    cores: int
    accelerators: list[str] | None = None
    """By their names in ``CUDA_VISIBLE_DEVICES``; None for all that this process sees."""


def assign_places(workers: int | None, cores_per_run: int | None) -> list[Place]:
    """The place of each worker.

    Args:
        workers: the number of workers; None for one per accelerator or, without any, as many as get separate cores.
        cores_per_run: the number of cores of each; None for 1, or with accelerators for an equal share of all.
    """
    cores, accelerators = available_cores(), cuda_devices()
    count = len(accelerators)
    if not count and (workers is None or cores_per_run is None):
        count = int(has_accelerator())
    if cores_per_run is None:
        cores_per_run = max(cores // count, 1) if count else 1
    if cores_per_run > cores:
        raise UserError(f"a run must have at most the {cores} cores that this process may use; got {cores_per_run}")
    if workers is None:
        workers = count or cores // cores_per_run
    # with too few accelerators, workers share them: each still has the same number
    size = max(len(accelerators) // workers, 1)
    return [
        Place(cores_per_run, _share(accelerators, worker, size) if accelerators else None) for worker in range(workers)
    ]


def _share(items: Sequence[T], worker: int, size: int) -> list[T]:
    """The next ``size`` items for this worker; after the last item they start over."""
    return [items[(worker * size + number) % len(items)] for number in range(size)]


@contextmanager
def limit_children(place: Place) -> Iterator[None]:
    """Limit processes that are started inside the block to a place: libraries read these variables when they load."""
    variables = thread_limits(place.cores)
    if place.accelerators is not None:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(place.accelerators)
    with set_environment(variables):
        yield


def thread_limits(cores: int) -> dict[str, str]:
    """Environment variables that limit the threads of XLA, OpenMP, BLAS and Accelerate to a number of cores."""
    return dict.fromkeys(("NPROC", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), str(cores))


@contextmanager
def set_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables until the block ends."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def cuda_devices() -> list[str]:
    """The CUDA devices that this process may use, by their names in ``CUDA_VISIBLE_DEVICES``."""
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]  # CUDA may number devices differently
        try:
            visible = subprocess.run(query, capture_output=True, text=True, check=True).stdout.replace("\n", ",")
        except (OSError, subprocess.CalledProcessError):
            return []
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return list(takewhile(lambda name: name != "-1", names))  # as in CUDA, -1 and all that follow are hidden


def has_accelerator() -> bool:
    """True if jax trains on a GPU or TPU here.

    Without a jax plugin for such a device there is none. Otherwise another process asks jax: in this process, jax
    would reserve the device's memory, which the workers need.
    """
    from importlib.metadata import entry_points

    plugins = find_spec("jax_plugins") or find_spec("libtpu") or entry_points(group="jax_plugins")
    if not plugins or os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    query = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    answer = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split()
    return answer[-1:] not in ([], ["cpu"])
