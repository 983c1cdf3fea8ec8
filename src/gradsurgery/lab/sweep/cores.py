"""Divide cores and accelerators among workers.

Rounding depends on the number of threads, and training amplifies it: a sum over four million elements already differs
between one core and two. So every run trains on the same number of cores, however few runs are left to train.
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


def available_cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


@dataclass(frozen=True)
class Place:
    """Where a worker trains."""

    cores: list[int]
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
        cores_per_run = max(len(cores) // count, 1) if count else 1
    if cores_per_run > len(cores):
        raise UserError(
            f"a run must have at most the {len(cores)} cores that this process may use; got {cores_per_run}"
        )
    if workers is None:
        workers = count or len(cores) // cores_per_run
    # with too few cores or accelerators, workers share them: each still has the same number
    return [
        Place(
            _share(cores, worker, cores_per_run),
            _share(accelerators, worker, max(len(accelerators) // workers, 1)) if accelerators else None,
        )
        for worker in range(workers)
    ]


def _share(items: Sequence[T], worker: int, size: int) -> list[T]:
    """The next ``size`` items for this worker; after the last item they start over."""
    return [items[(worker * size + number) % len(items)] for number in range(size)]


@contextmanager
def limit_children(place: Place) -> Iterator[None]:
    """Limit processes that this thread starts inside the block to a place.

    They inherit the limit, so it holds before a library is loaded and counts cores or devices. Where the system cannot
    pin a process, ``thread_limits`` apply.
    """
    variables = {} if place.accelerators is None else {"CUDA_VISIBLE_DEVICES": ",".join(place.accelerators)}
    if not hasattr(os, "sched_setaffinity"):
        with set_environment({**variables, **thread_limits(len(place.cores))}):
            yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, place.cores)
    try:
        with set_environment(variables):
            yield
    finally:
        os.sched_setaffinity(0, before)


def thread_limits(cores: int) -> dict[str, str]:
    """Environment variables that limit the threads of XLA, OpenMP and Accelerate to a number of cores."""
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
