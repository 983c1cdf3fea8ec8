"""Sweeps that are interrupted, resumed, and run beside one another."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.store import Store
from gradsurgery.lab.sweep.cores import available_cores
from gradsurgery.lab.sweep.resources import Resources
from gradsurgery.lab.sweep.train import train_grid
from gradsurgery.paper.training.checkpoint import Checkpoint
from tests.lab.sweep.recorder import Recorder
from tests.lab.sweep.toy import TOY, toy_runs

FOUR_MILLION = {"elements": 4_000_000}
LIPSCHITZ = [
    *(sys.executable, "-m", "gradsurgery.lab.cli", "sweep", "lipschitz", "--methods", "bloop"),
    *("--lams", "0.3", "--rhos", "0.1", "--seeds", "0", "--set", "epochs=4", "--checkpoint-every", "0"),
    *("--workers", "1"),  # each worker compiles the programs again
]


def run_sweep(folder, runs, listener=None, workers=None, cores_per_run=None, **options):
    resources = Resources(workers, cores_per_run)
    return train_grid(TOY, runs, folder=folder, listener=listener or Recorder(), resources=resources, **options)


def stored(folder):
    with Store(folder / "store.sqlite") as store:
        return {record.spec.key: record.metrics for record in store.select()}


def delete(folder, key):
    with sqlite3.connect(folder / "store.sqlite") as db:
        db.execute("DELETE FROM metrics WHERE run = ?", (key,))
        db.execute("DELETE FROM runs WHERE key = ?", (key,))
    db.close()


def test_a_run_is_trained_once(tmp_path):
    first, second = Recorder(), Recorder()
    before = run_sweep(tmp_path, toy_runs(), first, workers=0)
    after = run_sweep(tmp_path, toy_runs(), second, workers=0)
    assert (len(first.trained), len(first.stored)) == (4, 0)
    assert (len(second.trained), len(second.stored)) == (0, 4)
    assert before == after
    assert all(record.status == "done" and record.info["commit"] is not None for record in after)


@pytest.mark.slow
def test_a_resume_with_one_run_missing_ends_with_the_same_numbers(tmp_path):
    """The sums differ between one core and several, so the run has to have the same number of cores again."""
    runs = toy_runs(**FOUR_MILLION)[:2]
    (first, _) = run_sweep(tmp_path, runs)
    delete(tmp_path, runs[0].key)
    listener = Recorder()
    (again, _) = run_sweep(tmp_path, runs, listener)
    assert (listener.trained, listener.stored) == ([runs[0].key], [runs[1].key])
    assert again.metrics == first.metrics
    assert (first.info["cores"], again.info["cores"]) == (1, 1)
    assert listener.warnings == []


@pytest.mark.slow
@pytest.mark.skipif(available_cores() < 2, reason="needs two cores")
def test_numbers_depend_on_the_cores_so_a_change_of_cores_is_warned_about(tmp_path):
    runs = toy_runs(**FOUR_MILLION)[::2]  # two methods with the same weight, for which a toy has the same numbers
    listener = Recorder()
    run_sweep(tmp_path, runs[:1], listener, cores_per_run=2)
    assert listener.warnings == []
    two_cores, one_core = run_sweep(tmp_path, runs, listener)
    assert (two_cores.info["cores"], one_core.info["cores"]) == (2, 1)
    assert len(listener.warnings) == 1
    assert "1 of 1 stored runs of this grid used another number of cores (2; now 1)" in listener.warnings[0]
    assert one_core.metrics != two_cores.metrics, "if the cores no longer matter, this test proves nothing"


class Interrupted(BaseException):
    """Ends a sweep as a kill would."""


class Interrupter(Recorder):
    """Interrupts a sweep at its n-th event."""

    def __init__(self, events):
        super().__init__()
        self.left = events

    def run_advanced(self, run, fraction, metrics):
        self.left -= 1
        if self.left == 0:
            raise Interrupted


def test_interrupted_at_any_event_a_sweep_ends_with_the_same_numbers(tmp_path):
    runs = toy_runs()[:2]
    expected = [record.metrics for record in run_sweep(tmp_path / "straight", runs, workers=0)]
    for events in range(1, 11):
        folder = tmp_path / str(events)
        with pytest.raises(Interrupted):
            run_sweep(folder, runs, Interrupter(events), workers=0, checkpoint_every=0.0)
        assert [record.metrics for record in run_sweep(folder, runs, workers=0)] == expected
        assert not list((folder / "checkpoints").glob("*/*"))


def test_a_run_that_continues_on_other_cores_says_so(tmp_path):
    runs = toy_runs()[:1]
    with pytest.raises(Interrupted):
        run_sweep(tmp_path, runs, Interrupter(3), workers=0, checkpoint_every=0.0)
    with sqlite3.connect(tmp_path / "store.sqlite") as db:
        db.execute("UPDATE runs SET info = '{\"cores\": 64}'")
    db.close()
    with pytest.raises(Interrupted):
        run_sweep(tmp_path, runs, Interrupter(1), workers=0)
    (record,) = run_sweep(tmp_path, runs, workers=0)
    assert record.info["cores"] == f"64, then {available_cores()}", "and the same again is no change"


def test_a_damaged_checkpoint_costs_only_time(tmp_path, caplog):
    runs = toy_runs()[:1]
    with pytest.raises(Interrupted):
        run_sweep(tmp_path, runs, Interrupter(4), workers=0, checkpoint_every=0.0)
    files = [path for path in (tmp_path / "checkpoints" / runs[0].key).rglob("*") if path.is_file()]
    assert files
    for path in files:
        path.write_bytes(b"damaged")
    (record,) = run_sweep(tmp_path, runs, workers=0)
    assert ".unreadable" in caplog.text
    assert record.metrics == run_sweep(tmp_path / "other", runs, workers=0)[0].metrics


@pytest.mark.slow
def test_a_run_that_fails_is_recorded_does_not_stop_the_others_and_is_tried_again(tmp_path):
    (tmp_path / "mixed-fails").touch()
    runs, listener = toy_runs(), Recorder()
    records = run_sweep(tmp_path, runs, listener, data_dir=tmp_path)
    assert [record.status for record in records] == ["failed", "failed", "done", "done"]
    assert records[0].info["reason"] == "RuntimeError: mixed fails\nhere"
    assert listener.failed == dict.fromkeys((run.key for run in runs[:2]), "RuntimeError: mixed fails\nhere")
    assert len(listener.trained) == 2
    (tmp_path / "mixed-fails").unlink()
    assert {record.status for record in run_sweep(tmp_path, runs, workers=0)} == {"done"}


def test_without_workers_the_error_of_a_run_is_raised(tmp_path):
    (tmp_path / "mixed-fails").touch()
    with pytest.raises(RuntimeError, match="mixed fails"):
        run_sweep(tmp_path, toy_runs(), workers=0, data_dir=tmp_path)
    with Store(tmp_path / "store.sqlite") as store:
        assert [record.status for record in store.select(status=None)] == ["failed"]


@pytest.mark.parametrize("options", [{"workers": 0, "cores_per_run": 1}, {"cores_per_run": 10_000}])
def test_a_mistake_creates_nothing(tmp_path, options):
    with pytest.raises(UserError):
        run_sweep(tmp_path / "runs", toy_runs(), **options)
    assert list(tmp_path.iterdir()) == []


def test_a_problem_that_cannot_be_built_creates_nothing(tmp_path, monkeypatch):
    def refuse(settings, data_dir):
        raise UserError("no such data")

    monkeypatch.setattr("tests.lab.sweep.toy.ToyTask", refuse)
    with pytest.raises(UserError, match="no such data"):
        run_sweep(tmp_path / "runs", toy_runs(), workers=0)
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_holds_the_state_and_its_number_of_chunks(tmp_path):
    import jax.numpy as jnp
    import numpy as np

    checkpoint = Checkpoint(tmp_path / "run")
    state = {"w": jnp.arange(3.0), "n": jnp.zeros((), int)}
    assert checkpoint.restore(state) is None
    for chunks in (3, 10):
        checkpoint.save(chunks, {"w": state["w"] * chunks, "n": state["n"] + chunks})
    chunks, restored = checkpoint.restore(state)
    assert chunks == 10
    np.testing.assert_array_equal(restored["w"], state["w"] * 10)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["10"]
    (tmp_path / "run" / "20").mkdir()
    assert checkpoint.restore(state)[0] == 10, "an unreadable one is passed over"
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["10", "20.unreadable"]


def run_together(commands):
    """Run the commands at the same time, and return all lines that they print about runs."""
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    printed = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(commands)
    return [line for text in printed for line in text.splitlines() if line.startswith("[")]


def kill_after_rows(command, folder):
    """Start the command, and kill it as soon as it has recorded something."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_for_rows(folder, process)
        assert process.poll() is None, "the sweep ended before it could be killed: make it longer"
        os.kill(process.pid, signal.SIGKILL)


def wait_for_rows(folder, process):
    """Wait until the sweep records something."""
    log, before = folder / "store.sqlite-wal", None
    while process.poll() is None:
        with suppress(FileNotFoundError):
            now = log.stat().st_mtime_ns
            if before is not None and now != before:
                return
            before = now
        time.sleep(0.05)


@pytest.mark.slow
def test_two_sweeps_at_once_share_the_work(tmp_path):
    command = [sys.executable, "-m", "tests.lab.sweep.toy", "sweep", "toy", "--set", "sleep=0.1", "--workers", "1"]
    lines = run_together([[*command, "--folder", str(tmp_path)]] * 2)
    assert sum("in the store" not in line for line in lines) == len(stored(tmp_path)) == 5, "4 runs and main alone"


@pytest.mark.slow(seconds=30)
def test_a_real_sweep_that_is_killed_and_continued_by_two_at_once_ends_with_the_same_numbers(tmp_path):
    """With a checkpoint after every chunk, so that the kill may also hit a checkpoint."""
    killed, straight = ([*LIPSCHITZ, "--folder", str(tmp_path / name)] for name in ("killed", "straight"))
    kill_after_rows(killed, tmp_path / "killed")
    done = len(stored(tmp_path / "killed"))
    lines = run_together([killed, killed])
    subprocess.run(straight, check=True, stdout=subprocess.DEVNULL)
    expected = stored(tmp_path / "straight")
    assert sum("in the store" not in line for line in lines) <= len(expected) - done, "no run is trained twice"
    assert stored(tmp_path / "killed") == expected
    assert not list((tmp_path / "killed" / "checkpoints").glob("*/*"))
