"""Runs of a training script that the lab does not start, recorded with ``Store.run``."""

import re

import pytest

import gradsurgery as gs
from gradsurgery import lab
from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.store import StoreError

pytestmark = pytest.mark.usefixtures("no_figures")


def test_runs_that_a_training_script_logs_are_reported(tmp_path, capsys):
    for lam in (0.0, 0.1, 1.0):
        with lab.Store(tmp_path).run(problem="mine", method=gs.mixed(lam=lam), settings={"rate": 0.1}) as run:
            for step in range(3):
                run.log(step=step, main_train=1 + lam, aux_train=1 / (1 + lam))
    with pytest.raises(RuntimeError), lab.Store(tmp_path).run(problem="mine", method=gs.cosine()) as run:
        raise RuntimeError("out of memory")
    assert main(["report", "mine", "--folder", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "out of memory" in output
    assert main(["recommend", "mine", "--allow", "20%", "--folder", str(tmp_path)]) == 0
    assert "mixed, λ = 0.1: main +10.0 %, aux −9.1 % (one seed: no verdict)" in capsys.readouterr().out


def test_a_report_says_that_the_losses_are_missing(tmp_path, capsys):
    for lam in (0.0, 0.1):
        with lab.Store(tmp_path).run(problem="mine", method=gs.mixed(lam=lam)) as run:
            run.log(step=0, main_loss=1.0, aux_loss=1.0)
    assert main(["report", "mine", "--folder", str(tmp_path)]) == 0
    assert "No front: no finished run has main_train and aux_train" in capsys.readouterr().out


def test_a_recorded_run_may_have_a_relative_lam(tmp_path):
    with lab.Store(tmp_path).run(problem="mine", method=gs.bloop(lam=gs.relative(0.3))) as run:
        run.log(step=0, main_train=1.0, aux_train=1.0)
    with lab.Store(tmp_path) as store:
        (record,) = store.select("mine")
    assert (record.spec.lam, record.spec.rho) == (gs.relative(0.3), 0.01)


def test_a_recorded_run_of_a_problem_of_the_paper_has_one_of_its_scales(tmp_path):
    with (
        pytest.raises(UserError, match="no scale 'default' of lipschitz"),
        lab.Store(tmp_path).run(problem="lipschitz", method=gs.mixed(lam=0.1)),
    ):
        pass


def test_recording_a_run_again_replaces_it(tmp_path):
    for steps in (5, 2):
        with lab.Store(tmp_path).run(problem="mine", method=gs.mixed(lam=0.1)) as run:
            for step in range(steps):
                run.log(step=step, main_train=1.0, aux_train=1.0)
    with lab.Store(tmp_path) as store:
        (record,) = store.select("mine")
    assert len(record.metrics) == 2


def test_a_finished_run_is_replaced_only_when_the_new_one_ends(tmp_path):
    def rows():
        with lab.Store(tmp_path) as store:
            return [(record.status, record.final["main_train"]) for record in store.select(status=None)]

    def record(value, *, fails=False):
        with lab.Store(tmp_path).run(problem="mine", method=gs.mixed(lam=0.1)) as run:
            run.log(step=0, main_train=value, aux_train=1.0)
            if fails:
                raise RuntimeError
            return rows()

    assert record(1.0) == [("running", 1.0)]
    assert record(2.0) == [("done", 1.0)]
    assert rows() == [("done", 2.0)]
    with pytest.raises(RuntimeError):
        record(3.0, fails=True)
    assert rows() == [("done", 2.0)]
    with (
        pytest.raises(ValueError, match="a row must have a whole number"),
        lab.Store(tmp_path).run(problem="mine", method=gs.mixed(lam=0.1)) as run,
    ):
        run.log(step=0.5, main_train=1.0)


def test_two_processes_cannot_record_one_run(tmp_path):
    one, other = (lab.Store(tmp_path).run(problem="mine", method=gs.mixed(lam=0.1)) for _ in range(2))
    with one, pytest.raises(StoreError, match="another process records the run"), other:
        pass


def test_recorded_runs_differ_in_every_hyperparameter(tmp_path):
    store = lab.Store(tmp_path)
    for beta in (0.1, 0.5):
        with store.run(problem="mine", method=gs.gradvac(beta=beta), settings={"beta": beta}) as run:
            run.log(step=0, main_train=1.0, aux_train=1.0)
    assert len(store.select("mine")) == 2
    with (
        pytest.raises(ValueError, match=r"gradvac\(beta=0\.5\) has another hyperparameter: add beta to settings"),
        store.run(problem="mine", method=gs.gradvac(beta=0.5)),
    ):
        pass


@pytest.mark.parametrize(
    "method",
    [
        gs.mixed(lam=lambda step: 0.1),
        gs.bloop(lam=(0.1, lambda step: 0.2)),
        gs.mixed(lam=gs.relative(lambda step: 0.1)),
    ],
)
def test_a_recorded_run_has_one_number_as_lam(tmp_path, method):
    with (
        pytest.raises(ValueError, match="a recorded run must have one number as its lam; got"),
        lab.Store(tmp_path).run(problem="mine", method=method),
    ):
        pass


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"settings": {"warmup": None}}, "the setting warmup must be a number, text, True or False; got None"),
        (
            {"settings": {"betas": [0.9, 0.99]}},
            "setting betas must be a number, text, True or False; got [0.9, 0.99]",
        ),
        ({"seed": 0.5}, "the seed of a run must be an int; got 0.5"),
    ],
)
def test_a_run_that_the_store_cannot_hold_is_refused(tmp_path, arguments, sentence):
    with (
        pytest.raises(TypeError, match=re.escape(sentence)),
        lab.Store(tmp_path).run(problem="mine", method=gs.mixed(lam=0.1), **arguments),
    ):
        pass
    assert not any(tmp_path.iterdir())


def test_a_report_from_python_takes_any_name_of_a_problem(tmp_path):
    with lab.Store(tmp_path).run(problem="vision:small", method=gs.mixed(lam=0.1)) as run:
        run.log(step=0, main_train=1.0, aux_train=1.0)
    with lab.Store(tmp_path) as store:
        assert lab.report(store.select(), tmp_path / "report").exists()
    with pytest.raises(ValueError, match="a report needs at least one run; got none"):
        lab.report([], tmp_path / "report")
