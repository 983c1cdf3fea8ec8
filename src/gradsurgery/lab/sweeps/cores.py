"""How many cores a run gets, and how many runs train at once.

Rounding depends on the number of threads, and training amplifies it: a sum over four million elements already differs
between one core and two. So every run trains on the same number of cores, however few runs are left to train.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

from gradsurgery.lab.errors import UserError


def available_cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def assign_cores(workers: int | None, cores_per_run: int | None) -> list[list[int]]:
    """The cores of each worker.

    Args:
        workers: the number of workers; None for as many as have cores of their own, or 1 on an accelerator.
        cores_per_run: the number of cores of each; None for 1, or on an accelerator for all.
    """
    cores = available_cores()
    accelerator = (workers is None or cores_per_run is None) and has_accelerator()
    if cores_per_run is None:
        cores_per_run = len(cores) if accelerator else 1
    if cores_per_run > len(cores):
        raise UserError(f"a run has at most the {len(cores)} cores that this process may use, but got {cores_per_run}")
    if workers is None:
        workers = 1 if accelerator else len(cores) // cores_per_run
    # if there are too few cores, workers share them: each still has the same number
    return [
        [cores[(worker * cores_per_run + number) % len(cores)] for number in range(cores_per_run)]
        for worker in range(workers)
    ]


@contextmanager
def limit_children(cores: Sequence[int]) -> Iterator[None]:
    """Limit processes that this thread starts inside the block to these cores.

    They inherit the limit, so it holds before a library is loaded and counts the cores. Where the system cannot pin a
    process, environment variables limit the threads of XLA, OpenMP and Accelerate.
    """
    if hasattr(os, "sched_setaffinity"):
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)
    else:
        names = ("NPROC", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
        with _environment(dict.fromkeys(names, str(len(cores)))):
            yield


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
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


def has_accelerator() -> bool:
    """True if jax trains on a GPU or TPU here.

    Without a jax plugin for such a device there is none. Otherwise jax is asked in another process: in this one it
    would reserve the device's memory, which the workers need.
    """
    from importlib.metadata import entry_points

    plugins = find_spec("jax_plugins") or find_spec("libtpu") or entry_points(group="jax_plugins")
    if not plugins or os.environ.get("JAX_PLATFORMS") == "cpu":
        return False
    question = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    answer = subprocess.run(question, capture_output=True, text=True, check=False).stdout.split()
    return answer[-1:] not in ([], ["cpu"])
