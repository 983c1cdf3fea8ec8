"""The cores of a run: the same number for each, whatever the number of workers."""

import os
import subprocess
import sys

import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.sweeps import cores
from gradsurgery.lab.sweeps.cores import assign_cores, available_cores, has_accelerator, limit_children


@pytest.fixture
def four_cores(monkeypatch):
    monkeypatch.setattr(cores, "available_cores", lambda: [2, 3, 6, 7])
    monkeypatch.setattr(cores, "has_accelerator", lambda: False)


@pytest.mark.parametrize(
    ("workers", "cores_per_run", "expected"),
    [
        (None, None, [[2], [3], [6], [7]]),
        (1, None, [[2]]),
        (6, None, [[2], [3], [6], [7], [2], [3]]),
        (None, 2, [[2, 3], [6, 7]]),
        (None, 3, [[2, 3, 6]]),
        (2, 3, [[2, 3, 6], [7, 2, 3]]),
    ],
)
def test_every_worker_has_the_same_number_of_cores(four_cores, workers, cores_per_run, expected):
    assert assign_cores(workers, cores_per_run) == expected


def test_an_accelerator_is_used_by_one_worker_with_all_cores(four_cores, monkeypatch):
    monkeypatch.setattr(cores, "has_accelerator", lambda: True)
    assert assign_cores(None, None) == [[2, 3, 6, 7]]
    assert assign_cores(2, 1) == [[2], [3]]


def test_more_cores_than_there_are_is_refused(four_cores):
    with pytest.raises(UserError, match="a run has at most the 4 cores that this process may use, but got 5"):
        assign_cores(None, 5)


def child_conditions():
    code = "import os; print(len(os.sched_getaffinity(0)), os.environ.get('NPROC'), os.environ.get('OMP_NUM_THREADS'))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_children_inherit_the_limit_and_this_process_does_not_keep_it():
    before = available_cores()
    with limit_children(before[-1:]):
        assert child_conditions()[0] == "1"
    assert available_cores() == before
    assert child_conditions()[0] == str(len(before))


def test_where_processes_cannot_be_pinned_variables_limit_the_threads(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("NPROC", raising=False)
    with limit_children([0]):
        assert child_conditions()[1:] == ["1", "1"]
    assert child_conditions()[1:] == ["None", "7"]


def test_xla_takes_its_number_of_threads_from_the_variable():
    """NPROC is the fallback for pinning: a sum that depends on the number of threads has to agree with it."""
    code = "import jax.numpy as jnp; print(float(jnp.sum(jnp.sin(jnp.arange(4e6)))))"

    def result(**variables):
        environment = {**os.environ, **variables}
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True).stdout

    with limit_children(available_cores()[:1]):
        pinned = result()
    assert result(NPROC="1") == pinned != ""


def test_no_accelerator_is_found_without_loading_jax():
    code = "import sys; from gradsurgery.lab.sweeps.cores import has_accelerator as h; print(h(), 'jax' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if not cores.find_spec("jax_plugins") and not cores.find_spec("libtpu"):
        assert result.stdout.split() == ["False", "False"]


@pytest.mark.parametrize(("answer", "expected"), [("gpu", True), ("cpu", False), ("", False)])
def test_jax_is_asked_where_a_plugin_is_installed(monkeypatch, answer, expected):
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr(cores, "find_spec", lambda name: object())
    result = subprocess.CompletedProcess([], 0, stdout=answer)
    monkeypatch.setattr(cores.subprocess, "run", lambda *_, **__: result)
    assert has_accelerator() is expected
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert not has_accelerator()
