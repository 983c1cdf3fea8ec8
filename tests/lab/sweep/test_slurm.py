"""Sweeps on Slurm, with submitit's executor for one machine: the same numbers, and nothing lost with a driver."""

import os
import pickle
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import pytest

from gradsurgery import lab
from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.store import Store
from gradsurgery.lab.sweep.attempt import Leases
from gradsurgery.lab.sweep.messages import Ended, Row, Started

pytest.importorskip("submitit")
from gradsurgery.lab.sweep import slurm

LOCAL = {"cluster": "local", "timeout_min": 5}
SPEC = RunSpec("p", "s", "mixed", 0.1, None, seed=0)


@lab.problem(main="m", aux="a", lams=[0.1, 1.0], settings={"crash": 0.0})
def line(run):
    print("printed by", run.lam)
    for step in range(3):
        yield {"step": step, "main_train": 1 + run.lam * step, "aux_train": 1 / (1 + run.lam)}
        if run.settings["crash"] and run.settings["crash"] == run.lam:
            os._exit(3)


def metrics_of(records):
    return {record.spec.key: record.metrics for record in records if record.status == "done"}


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # submitit drops processes that are ending
def test_jobs_end_with_the_numbers_of_workers_and_a_crash_is_a_failed_run(tmp_path):
    arguments = {"methods": ["mixed"], "settings": {"crash": 1.0}, "quiet": True}
    records = lab.sweep(line, folder=tmp_path / "slurm", slurm=LOCAL, **arguments)
    assert metrics_of(records) == metrics_of(lab.sweep(line, folder=tmp_path / "workers", workers=1, **arguments))
    (failed,) = (record for record in records if record.status == "failed")
    assert failed.spec.lam == 1.0
    assert str(failed.info["reason"]).endswith("before the run did")
    assert (tmp_path / "slurm" / str(failed.info["log"])).read_text() == "printed by 1.0\n"
    assert [path.name for path in (tmp_path / "slurm" / "slurm").iterdir()] == ["jobs"]


@dataclass
class Job:
    """A job that is over as soon as it is submitted."""

    job_id: str
    state: str = "TIMEOUT"
    cancelled: ClassVar[list[str]] = []

    def done(self):
        return True

    def cancel(self, check):
        self.cancelled.append(self.job_id)


class Executor:
    """Trains nothing."""

    def __init__(self):
        self.submitted = []

    def submit(self, function, *arguments):
        self.submitted.append(arguments)
        return Job("2")


@pytest.fixture(autouse=True)
def cancelled(monkeypatch):
    """The jobs that were cancelled."""
    monkeypatch.setattr(Job, "cancelled", [])
    return Job.cancelled


@pytest.fixture
def job(tmp_path):
    (tmp_path / "slurm").mkdir()
    with Store(tmp_path) as store:
        yield slurm._Job(Leases(store, tmp_path, {"mixed": {}}).take(SPEC), tmp_path / "slurm" / f"{SPEC.key}.messages")


def write(path, *messages):
    with path.open("ab") as file:
        for message in messages:
            file.write(pickle.dumps(message))


STARTED, ROW = Started({"cores": 1}), Row(0.5, {"step": 0, "main_train": 1.0})


def test_what_the_job_of_a_killed_driver_has_ended_is_not_trained_again(job, cancelled):
    write(job.path, STARTED, ROW, Ended({"seconds": 1.0}))
    job.path.with_suffix(".job").write_bytes(pickle.dumps(Job("1")))
    executor = Executor()
    events = list(job.submit(executor, None))
    assert [type(event).__name__ for event in events] == ["Advanced", "Done"]
    assert (executor.submitted, cancelled) == ([], ["1"])
    assert list(job.watch()) == []
    assert list(job.path.parent.iterdir()) == []


def test_the_job_of_a_killed_driver_is_cancelled_and_its_rows_are_kept(job, cancelled):
    write(job.path, STARTED, ROW)
    job.path.with_suffix(".job").write_bytes(pickle.dumps(Job("1")))
    job.attempt.folder.mkdir(parents=True)
    (job.attempt.folder / "checkpoint").touch()
    executor = Executor()
    list(job.submit(executor, None))
    assert cancelled == ["1"]
    ((_, task, _),) = executor.submitted
    assert task.may_be_over, "it continues from a checkpoint"
    assert pickle.loads(job.path.with_suffix(".job").read_bytes()) == Job("2")
    assert job.attempt.store.get(SPEC.key).metrics == (ROW.metrics,)


def test_a_message_is_read_once_and_only_when_it_is_complete(job):
    write(job.path, STARTED, ROW)
    whole = job.path.read_bytes()
    for length in range(len(pickle.dumps(STARTED)), len(whole)):
        job.path.write_bytes(whole[:length])
        assert list(job.read()) == []
    job.path.write_bytes(whole)
    assert len(list(job.read())) == 1
    assert list(job.read()) == []


def test_a_job_that_ends_before_its_run_has_failed(job):
    list(job.submit(Executor(), None))
    write(job.path, STARTED, ROW)
    _, failed = job.watch()
    assert failed.reason == "job 2 ended as TIMEOUT before the run did"
    assert job.attempt.store.get(SPEC.key).status == "failed"
    assert list(job.path.parent.iterdir()) == []


def test_a_job_of_a_killed_driver_that_has_not_begun_is_cancelled(job, cancelled):
    job.path.with_suffix(".job").write_bytes(pickle.dumps(Job("1")))
    list(job.submit(Executor(), None))
    assert cancelled == ["1"]


def test_a_run_that_is_stopped_early_is_cancelled(job, cancelled):
    job.attempt.stopping = SimpleNamespace(judge=lambda *_: "too far", info={})
    list(job.submit(Executor(), None))
    write(job.path, STARTED, ROW, ROW)
    (stopped,) = job.watch()
    assert stopped.reason == "too far"
    assert cancelled == ["2"]
    assert job.attempt.store.get(SPEC.key).status == "stopped"


def test_a_sweep_that_ends_early_cancels_its_jobs(tmp_path, monkeypatch, cancelled):
    executor = Executor()
    (tmp_path / "slurm").mkdir()
    monkeypatch.setattr(slurm, "_executor", lambda *_: executor)
    monkeypatch.setattr(slurm._Job, "watch", lambda job: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        lab.sweep(line, folder=tmp_path, methods=["mixed"], slurm=LOCAL, quiet=True)
    assert cancelled == ["2"] * len(executor.submitted) == ["2"] * 3


def test_mistakes_are_one_sentence(tmp_path, capsys, monkeypatch):
    command = ["sweep", f"{__file__}:line", "--folder", str(tmp_path / "new"), "--slurm"]
    for parameters in (["timeout_min=x"], ["nonsense=1"], ["cluster=nowhere"]):
        assert main([*command, *parameters]) == 2
        error = capsys.readouterr().err
        assert error.startswith("gradsurgery: submitit cannot submit jobs with {")
        assert error.count("\n") == 1
    with pytest.raises(UserError, match="leave them out to train on Ray or Slurm"):
        lab.sweep(line, folder=tmp_path, slurm=True, workers=2)
    with pytest.raises(UserError, match="on Ray or on Slurm, not on both"):
        lab.sweep(line, folder=tmp_path, slurm=True, ray=True)
    monkeypatch.delitem(sys.modules, "gradsurgery.lab.sweep.slurm")
    monkeypatch.setitem(sys.modules, "submitit", None)
    assert main(command) == 2
    assert 'training on Slurm needs submitit: pip install "gradsurgery[slurm]"' in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
