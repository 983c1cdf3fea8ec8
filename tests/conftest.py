"""Settings for the whole test run; those of JAX, OpenMP and Triton have to precede their first use."""

import atexit
import gc
import os
import shutil
import tempfile
from collections import Counter
from importlib.util import find_spec

import pytest
from hypothesis import settings

from tests.device import DEVICE

os.environ.setdefault("OMP_NUM_THREADS", "1")  # several tests share the cores, and threads would wait for one another
os.environ.setdefault("TRITON_INTERPRET", "1" if DEVICE == "cpu" else "0")  # runs Triton kernels on the CPU

settings.register_profile("project", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("project")

if "JAX_COMPILATION_CACHE_DIR" not in os.environ:  # one for all processes of this test run, which compile much alike
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

if find_spec("jax"):
    import jax

    jax.config.update("jax_num_cpu_devices", 8)

if DEVICE != "cpu":
    import torch

    torch.set_default_device(DEVICE)


def pytest_collection_finish():
    """Keep the garbage collector from looking through all imported modules again and again: 7 % of the time."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    gc.unfreeze()


@pytest.fixture
def one_worker(monkeypatch):
    """Sweeps start one worker, as on one core: each imports the libraries and compiles the programs anew."""
    from gradsurgery.lab.sweep import cores

    monkeypatch.setattr(cores, "available_cores", lambda: 1)


def pytest_xdist_auto_num_workers():
    """One worker more than cores, as some tests wait for processes that they start; each first imports for a while."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else None


def pytest_collection_modifyitems(items):
    """Start with the files that take longest, so that all workers finish at about the same time."""
    seconds = Counter()
    for item in items:
        if slow := item.get_closest_marker("slow"):
            seconds[item.path] += slow.kwargs.get("seconds", 2)
    items.sort(key=lambda item: -seconds[item.path])
