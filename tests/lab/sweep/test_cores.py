"""The cores of a run: the same number for each, whatever the number of workers."""

import os
import subprocess
import sys
import time

import pytest

from gradsurgery import lab
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.grid import specs
from gradsurgery.lab.sweep import cores
from gradsurgery.lab.sweep.cores import (
    Place,
    assign_places,
    cuda_devices,
    has_accelerator,
    limit_children,
)
from gradsurgery.lab.sweep.train import train_grid
from tests.lab.sweep.recorder import Recorder


@pytest.fixture
def four_cores(monkeypatch):
    monkeypatch.setattr(cores, "available_cores", lambda: 4)
    monkeypatch.setattr(cores, "has_accelerator", lambda: False)
    monkeypatch.setattr(cores, "cuda_devices", list)


@pytest.mark.parametrize(
    ("workers", "cores_per_run", "expected"),
    [
        (None, None, [1, 1, 1, 1]),
        (1, None, [1]),
        (6, None, [1, 1, 1, 1, 1, 1]),
        (None, 2, [2, 2]),
        (None, 3, [3]),
        (2, 3, [3, 3]),
    ],
)
def test_every_worker_has_the_same_number_of_cores(four_cores, workers, cores_per_run, expected):
    places = assign_places(workers, cores_per_run)
    assert [place.cores for place in places] == expected
    assert {place.accelerators is None for place in places} == {True}


def test_an_accelerator_is_used_by_one_worker_with_all_cores(four_cores, monkeypatch):
    monkeypatch.setattr(cores, "has_accelerator", lambda: True)
    assert assign_places(None, None) == [Place(4)]
    assert assign_places(2, 1) == [Place(1), Place(1)]


@pytest.mark.parametrize(
    ("devices", "workers", "cores_per_run", "expected"),
    [
        ("ab", None, None, [(2, "a"), (2, "b")]),
        ("ab", None, 1, [(1, "a"), (1, "b")]),
        ("abc", 4, None, [(1, "a"), (1, "b"), (1, "c"), (1, "a")]),
        ("abcd", 2, None, [(1, "ab"), (1, "cd")]),
        ("abcd", 1, None, [(1, "abcd")]),
        ("abcdef", None, None, [(1, "a"), (1, "b"), (1, "c"), (1, "d"), (1, "e"), (1, "f")]),
    ],
)
def test_each_accelerator_trains_one_run(four_cores, monkeypatch, devices, workers, cores_per_run, expected):
    monkeypatch.setattr(cores, "cuda_devices", lambda: list(devices))
    places = assign_places(workers, cores_per_run)
    assert places == [Place(worker_cores, list(accelerators)) for worker_cores, accelerators in expected]


@pytest.mark.parametrize(
    ("visible", "expected"), [("0,2", ["0", "2"]), (" GPU-1 ", ["GPU-1"]), ("", []), ("3,-1,4", ["3"])]
)
def test_devices_are_those_that_this_process_sees(monkeypatch, visible, expected):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    assert cuda_devices() == expected
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert cuda_devices() == []


def test_devices_are_named_by_the_driver_if_no_variable_does(monkeypatch, tmp_path):
    for name in ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cuda_devices() == []
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf 'GPU-1\\nGPU-2\\n'\n")
    program.chmod(0o755)
    assert cuda_devices() == ["GPU-1", "GPU-2"]
    program.write_text("#!/bin/sh\nexit 9\n")
    assert cuda_devices() == []


@pytest.mark.slow
def test_workers_see_their_own_accelerators(tmp_path, monkeypatch):
    """Two runs that wait for each other: each has a worker, and each worker its own device."""

    @lab.problem(main="m", aux="a", lams=[0.5, 1.0], methods=["pcgrad"])
    def seeing(run):
        (tmp_path / f"{run.lam}").touch()
        deadline = time.monotonic() + 300
        while not all((tmp_path / lam).exists() for lam in ("0.5", "1.0")) and time.monotonic() < deadline:
            time.sleep(0.01)
        yield {"step": 0, "main_train": 1.0, "aux_train": 1.0, "device": float(os.environ["CUDA_VISIBLE_DEVICES"])}

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    runs = specs(seeing, "default")
    records = train_grid(seeing, runs, folder=tmp_path, listener=Recorder())
    assert sorted(record.final["device"] for record in records) == [5.0, 7.0]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "5,7"


def test_more_cores_than_there_are_is_refused(four_cores):
    with pytest.raises(UserError, match="a run must have at most the 4 cores that this process may use; got 5"):
        assign_places(None, 5)


def child_limits():
    code = "import os; print(os.environ.get('NPROC'), os.environ.get('OMP_NUM_THREADS'))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_children_inherit_the_limit_and_this_process_does_not_keep_it(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("NPROC", raising=False)
    with limit_children(Place(3)):
        assert child_limits() == ["3", "3"]
    assert child_limits() == ["None", "7"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cannot pin a process here")
@pytest.mark.parametrize(
    "code",
    [
        pytest.param("import jax.numpy as jnp; print(float(jnp.sum(jnp.sin(jnp.arange(4e6)))))", id="jax"),
        pytest.param("import torch; print(torch.arange(4e6).sin().sum().item(), torch.get_num_threads())", id="torch"),
    ],
)
def test_a_limit_of_one_gives_the_numbers_of_one_core(monkeypatch, code):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    pytest.importorskip(code.split()[1].split(".")[0].rstrip(";"))

    def result(code):
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    pinned = result(f"import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); {code}")
    with limit_children(Place(1)):
        assert result(code) == pinned


def test_looking_for_an_accelerator_does_not_load_jax():
    code = """if True:
        import sys
        from gradsurgery.lab.sweep import cores
        cores.find_spec = lambda name: True  # as if a plugin were installed
        cores.has_accelerator()
        print("jax" in sys.modules)
    """
    environment = {name: value for name, value in os.environ.items() if name != "JAX_PLATFORMS"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


@pytest.mark.parametrize(("answer", "expected"), [("gpu", True), ("cpu", False), ("", False)])
def test_jax_names_the_platform_if_a_plugin_is_installed(monkeypatch, answer, expected):
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr(cores, "find_spec", lambda name: object())
    result = subprocess.CompletedProcess([], 0, stdout=answer)
    monkeypatch.setattr(cores.subprocess, "run", lambda *_, **__: result)
    assert has_accelerator() is expected
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert not has_accelerator()
