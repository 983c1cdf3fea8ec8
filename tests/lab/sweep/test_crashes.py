"""A crash is a failed run: the others go on, and nothing of one run reaches the next."""

import ctypes
import os
import signal
import sys
import time

import pytest

from gradsurgery import lab
from gradsurgery.lab.errors import UserError

CRASHES = {
    1.0: "its process was killed by SIGSEGV",
    2.0: "its process was killed by SIGKILL, perhaps because the memory was full",
    3.0: "its process exited with code 0",
    4.0: "SystemExit: 0",
    5.0: "ArithmeticError: one\ntwo",
    6.0: "ValueError: a row must have a whole number below 2**63 as its step",
}


@lab.problem(main="m", aux="a", methods=["mixed"], lams=[*CRASHES, 7.0])
def crashing(run):
    print(f"λ is {run.lam}")
    match run.lam:
        case 1.0:
            ctypes.string_at(0)
        case 2.0:
            os.kill(os.getpid(), signal.SIGKILL)
        case 3.0:
            os._exit(0)
        case 4.0:
            sys.exit(0)
        case 5.0:
            raise ArithmeticError("one\ntwo")
    os.fork()  # the copy goes on as if it were the run
    yield {"step": 2**63 if run.lam == 6.0 else 0, "main_train": 1.0, "aux_train": run.lam}


@pytest.mark.parametrize("share_process", [False, True])
def test_a_crash_fails_its_run_alone(tmp_path, share_process):
    problem = lab.problem(
        main="m", aux="a", methods=["mixed"], lams=[*CRASHES, 7.0], name="crashing", share_process=share_process
    )(crashing.train)
    records = {record.spec.lam: record for record in lab.sweep(problem, folder=tmp_path, workers=2, quiet=True)}
    assert {lam for lam, record in records.items() if record.status == "done"} == {0.0, 7.0}
    for lam, reason in CRASHES.items():
        info = records[lam].info
        assert info["reason"].startswith(reason)
        log = (tmp_path / info["log"]).read_text()
        assert log.startswith(f"λ is {lam}\n")
        assert (lam in (4.0, 5.0)) == ("Traceback (most recent call last):" in log)
        assert (lam == 1.0) == ("Fatal Python error: Segmentation fault" in log)


def test_a_run_that_takes_too_long_fails(tmp_path):
    @lab.problem(main="m", aux="a", methods=["mixed"], lams=[1.0])
    def endless(run):
        yield {"step": 0, "main_train": 1.0, "aux_train": 1.0}
        time.sleep(1000)

    records = lab.sweep(endless, folder=tmp_path, workers=2, time_limit=0.5, quiet=True)
    assert [record.info["reason"] for record in records] == ["stopped after the time limit of 0.5 s"] * 2
    for arguments in ({"workers": 0}, {"ray": True}):
        with pytest.raises(UserError, match="a time limit needs worker processes on this machine"):
            lab.sweep(endless, folder=tmp_path, time_limit=0.5, quiet=True, **arguments)
    with pytest.raises(UserError, match="the time limit of a run must be a number of seconds above 0; got -1"):
        lab.sweep(endless, folder=tmp_path, time_limit=-1, quiet=True)


COUNT = []


@pytest.mark.parametrize("workers", [1, 2])
def test_every_run_has_a_fresh_process_unless_the_problem_shares_one(tmp_path, workers):
    def count(run):
        COUNT.append(run.seed)
        yield {"step": 0, "main_train": float(len(COUNT)), "aux_train": 1.0}

    def counts(share_process):
        problem = lab.problem(main="m", aux="a", lams=[1.0], name=f"c{share_process}", share_process=share_process)(
            count
        )
        records = lab.sweep(problem, folder=tmp_path, seeds=[0, 1], workers=workers, quiet=True)
        return sorted(record.final["main_train"] for record in records)

    assert counts(False) == [1.0] * 6
    assert len(set(counts(True))) > 2, "else the first half of this test proves nothing"


def test_main_alone_is_trained_first_then_the_first_seed_of_every_lam(tmp_path):
    order = []

    @lab.problem(main="m", aux="a", lams=[0.5, 1.0], methods=["mixed", "pcgrad"], seeds=[3, 0])
    def ordered(run):
        order.append((run.lam, run.seed))
        yield {"step": 0, "main_train": 1.0, "aux_train": 1.0}

    lab.sweep(ordered, folder=tmp_path, workers=0, quiet=True)
    assert order[:2] == [(0.0, 3), (0.0, 0)]
    assert [seed for _, seed in order[2:]] == [3] * 4 + [0] * 4
