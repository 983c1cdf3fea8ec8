"""Sweeps that are killed, started again, and run beside one another."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from gradsurgery.lab.grid import specs
from gradsurgery.lab.problems import problem
from gradsurgery.lab.store.store import Store
from gradsurgery.lab.sweeps.sweep import sweep
from gradsurgery.lab.train.checkpoint import Checkpoint

GRID = {"methods": ["mixed", "bloop"], "lams": [0.01, 0.3], "rhos": [0.1], "seeds": [0, 1]}
COMMAND = [
    *(sys.executable, "-m", "gradsurgery.lab.cli", "sweep", "lipschitz", "--methods", "mixed,bloop"),
    *("--lams", "0.01,0.3", "--rhos", "0.1", "--seeds", "0,1", "--set", "epochs=8", "--checkpoint-every", "0"),
]


class Quiet:
    """Watches a sweep and counts."""

    def __init__(self):
        self.trained = []

    def begin(self, runs):
        self.runs = runs

    def training(self, run, share, metrics):
        pass

    def done(self, run, metrics, trained):
        self.trained += [run.key] * trained


def runs(epochs="8"):
    return specs(problem("lipschitz"), "demo", **GRID, settings={"epochs": epochs})


def swept(folder, watcher=None, grid=None, **options):
    with Store(folder / "store.sqlite") as store:
        watcher = watcher or Quiet()
        return sweep(problem("lipschitz"), grid or runs(), store, folder=folder, watcher=watcher, **options)


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    """The metrics of a sweep that nobody disturbs, in a process of its own: this one has other devices."""
    folder = tmp_path_factory.mktemp("straight")
    subprocess.run([*COMMAND, "--folder", str(folder)], check=True, stdout=subprocess.DEVNULL)
    return stored(folder)


def stored(folder):
    with Store(folder / "store.sqlite") as store:
        return {record.spec.key: record.metrics for record in store.select("lipschitz")}


def test_the_same_run_asked_for_twice_is_trained_once(tmp_path):
    first, second = Quiet(), Quiet()
    grid = runs(epochs="1")[:2]
    before, after = swept(tmp_path, first, grid), swept(tmp_path, second, grid)
    assert (len(first.trained), len(second.trained)) == (2, 0)
    assert [record.metrics for record in before] == [record.metrics for record in after]
    assert all(record.status == "done" and record.info["commit"] is not None for record in after)


def test_killed_at_random_moments_a_sweep_ends_with_the_numbers_of_one_that_was_not(tmp_path, straight):
    """With a checkpoint after every call, so that kills fall into checkpoints and rows as well."""
    chance, kills = random.Random(0), 0
    command = [*COMMAND, "--folder", str(tmp_path)]
    while kills < 5:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            wait_for_rows(tmp_path, process)
            time.sleep(chance.uniform(0, 1.0))
            assert process.poll() is None, "the sweep ended before it could be killed: make it longer"
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert stored(tmp_path) == straight
    assert not list((tmp_path / "checkpoints").glob("*/*"))


def wait_for_rows(folder, process):
    """Until this process has recorded something: the clock of a kill starts there, not at the import of jax."""
    store, before = folder / "store.sqlite", None
    while process.poll() is None:
        with suppress(Exception):
            now = [(folder / name).stat().st_mtime_ns for name in ("store.sqlite-wal",) if store.exists()]
            if before is not None and now != before:
                return
            before = now
        time.sleep(0.05)


def test_two_sweeps_at_once_share_the_work(tmp_path, straight):
    command = [*COMMAND, "--folder", str(tmp_path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    lines = [line for text in printed for line in text.splitlines() if line.startswith("[")]
    assert sum("in the store" not in line for line in lines) == len(straight)
    assert stored(tmp_path) == straight


def test_a_damaged_checkpoint_costs_time_and_no_more(tmp_path, caplog):
    grid = runs(epochs="4")[:1]

    class Killed(BaseException):
        pass

    class Killer(Quiet):
        def training(self, run, share, metrics):
            if share > 0.5:
                raise Killed

    with pytest.raises(Killed):
        swept(tmp_path, Killer(), grid, checkpoint_every=0.0)
    saved = list((tmp_path / "checkpoints" / grid[0].key).rglob("*"))
    assert saved
    for path in saved:
        if path.is_file():
            path.write_bytes(b"damaged")
    (record,) = swept(tmp_path, grid=grid)
    assert "could not be read and was put aside" in caplog.text
    assert record.metrics == swept(tmp_path / "other", grid=grid)[0].metrics


def test_a_checkpoint_is_the_state_and_its_calls(tmp_path):
    import jax.numpy as jnp
    import numpy as np

    checkpoint = Checkpoint(tmp_path / "run")
    state = {"w": jnp.arange(3.0), "n": jnp.zeros((), int)}
    assert checkpoint.restore(state) is None
    for calls in (3, 10):
        checkpoint.save(calls, {"w": state["w"] * calls, "n": state["n"] + calls})
    calls, restored = checkpoint.restore(state)
    assert calls == 10
    np.testing.assert_array_equal(restored["w"], state["w"] * 10)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["10"]
    (tmp_path / "run" / "20").mkdir()
    assert checkpoint.restore(state)[0] == 10, "an unreadable one is passed over"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["10", "20.unreadable"]
    checkpoint.clear()
    assert checkpoint.restore(state) is None


def test_a_run_that_fails_is_recorded_and_tried_again(tmp_path):
    class Broken(Quiet):
        def training(self, run, share, metrics):
            raise RuntimeError("no more")

    grid = runs(epochs="1")[:1]
    with pytest.raises(RuntimeError, match="no more"):
        swept(tmp_path, Broken(), grid)
    with Store(tmp_path / "store.sqlite") as store:
        assert store.get(grid[0].key).status == "failed"
    (record,) = swept(tmp_path, grid=grid)
    assert record.status == "done"
