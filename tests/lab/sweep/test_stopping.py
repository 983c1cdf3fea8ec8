"""Runs that cannot be recommended are stopped; those that may come back are not."""

import math

import pytest

import gradsurgery as gs
from gradsurgery import lab
from gradsurgery.lab.analysis import Allowance
from gradsurgery.lab.cli import main
from gradsurgery.lab.objective import Objective
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.sweep.stopping import Stopping

STEPS = 40


def spec(lam, seed=0, method="mixed"):
    return RunSpec("p", "default", method, lam, None, seed)


def record(lam, excess, seed=0, method="mixed", status="done", name="main_test"):
    """A run whose main is ``1 + excess(fraction)`` times that of main alone, which falls from 2 to 1."""
    rows = [
        {"step": step, name: (2 - step / STEPS) * (1 + excess(step / STEPS)), "aux_train": 1.0}
        for step in range(STEPS + 1)
    ]
    return RunRecord(spec(lam, seed, method), status, {}, tuple(rows))


def constant(value):
    return lambda fraction: value


ALONE = record(0.0, constant(0.0))
WITHIN = [record(lam, constant(lam)) for lam in (0.01, 0.02, 0.03)]


def stop_at(stopping, run):
    """The step at which a run is stopped; None if it is not."""
    return next((row["step"] for row in run.metrics if stopping.judge(run.spec, row)), None)


@pytest.mark.parametrize("name", ["main_test", "main_train"])
def test_a_run_far_beyond_the_allowance_is_stopped_after_a_fifth(name):
    known = [record(each.spec.lam, constant(each.spec.lam), name=name) for each in (ALONE, *WITHIN)]
    stopping = Stopping(Allowance(0.05), known)
    assert stop_at(stopping, record(1.0, constant(0.11), name=name)) == STEPS / 5
    assert stop_at(Stopping(Allowance(0.05), known), record(1.0, constant(0.09), name=name)) is None


def test_the_reason_says_how_far_main_is():
    run = record(1.0, constant(0.5))
    reasons = [Stopping(Allowance(0.05), [ALONE, *WITHIN]).judge(run.spec, row) for row in run.metrics]
    assert reasons[8] == "main was 50 % worse than main alone after 20% of the training: too far to come back"


def test_an_absolute_allowance_is_a_difference_of_losses():
    run = record(1.0, constant(0.5))  # 0.9 above main alone after a fifth
    assert stop_at(Stopping(Allowance(0.4, absolute=True), [ALONE, *WITHIN]), run) == STEPS / 5
    assert stop_at(Stopping(Allowance(0.5, absolute=True), [ALONE, *WITHIN]), run) is None


def test_a_metric_of_which_more_is_better_is_judged_by_its_fall():
    known = [record(each.spec.lam, constant(-each.spec.lam), name="accuracy") for each in (ALONE, *WITHIN)]
    accuracy = Objective("accuracy", maximise=True)
    fallen, risen = (record(1.0, constant(excess), name="accuracy") for excess in (-0.5, 0.5))
    assert stop_at(Stopping(Allowance(0.05), known, accuracy), fallen) == STEPS / 5
    assert stop_at(Stopping(Allowance(0.05), known, accuracy), risen) is None


def test_a_comeback_of_a_finished_run_gives_all_others_twice_as_much_room():
    returned = record(0.04, lambda fraction: 0.3 * max(1 - 2 * fraction, 0.0))  # from 30 % to 0 half-way
    stopping = Stopping(Allowance(0.05), [ALONE, *WITHIN, returned])
    assert stop_at(stopping, record(1.0, lambda fraction: 0.5 * max(1 - 2 * fraction, 0.0))) is None
    assert stop_at(stopping, record(2.0, constant(1.0))) == STEPS / 5
    assert stop_at(stopping, record(3.0, constant(0.2))) > STEPS / 3, "as the others have come back by then"


def test_one_good_row_in_a_fifth_of_the_training_is_enough():
    noisy = record(1.0, lambda fraction: 0.0 if round(fraction * STEPS) % 7 == 0 else 2.0)
    assert stop_at(Stopping(Allowance(0.05), [ALONE, *WITHIN]), noisy) is None


def test_main_alone_is_never_stopped():
    stopping = Stopping(Allowance(0.0), [ALONE, *WITHIN])
    assert stop_at(stopping, record(0.0, constant(9.0))) is None
    assert stopping.rule_out(spec(0.0, seed=1)) is None


@pytest.mark.parametrize(
    "known",
    [
        [],
        WITHIN,
        [ALONE, *WITHIN[:2]],
        [record(0.0, constant(0.0), status="running"), *WITHIN],
        [record(0.0, constant(0.0), seed=1), *WITHIN],
        [ALONE, *(record(lam, constant(lam), method="pcgrad") for lam in (0.01, 0.02, 0.03))],
    ],
    ids=["nothing", "no main alone", "two runs", "main alone is training", "another seed", "another method"],
)
def test_too_little_is_known_to_stop_a_run(known):
    stopping = Stopping(Allowance(0.05), known)
    assert stop_at(stopping, record(5.0, constant(9.0))) is None
    assert stopping.rule_out(spec(5.0)) is None


def test_a_lam_above_one_that_is_far_beyond_the_allowance_is_ruled_out():
    stopping = Stopping(Allowance(0.05), [ALONE, *WITHIN, record(0.3, constant(0.2))])
    assert stopping.rule_out(spec(1.0)) == "main is much worse than main alone with λ = 0.3 already"
    assert stopping.rule_out(spec(0.3, seed=1))
    assert stopping.rule_out(spec(0.1)) is None
    assert stopping.rule_out(spec(1.0, method="bloop")) is None
    assert stopping.rule_out(spec(gs.relative(1.0))) is None


def test_a_stopped_run_rules_out_larger_lams():
    stopping = Stopping(Allowance(0.05), [ALONE, *WITHIN])
    assert stopping.rule_out(spec(2.0)) is None
    assert stop_at(stopping, record(1.0, constant(0.5)))
    assert stopping.rule_out(spec(2.0))


def test_nothing_is_ruled_out_while_main_does_not_grow_with_lam():
    """The third λ ends 10 % below the second, so 20 % of the fourth may be noise."""
    known = [record(lam, constant(end)) for lam, end in ((0.1, 0.0), (0.2, 0.1), (0.3, 0.0), (0.4, 0.2))]
    assert Stopping(Allowance(0.05), [ALONE, *known]).rule_out(spec(1.0)) is None


def test_rows_that_are_not_finite_or_lack_the_loss_are_passed_over():
    run = record(1.0, constant(0.5))
    rows = [{**row, "main_test": math.nan} if row["step"] % 2 else row for row in run.metrics]
    rows.insert(5, {"step": 4.5, "aux_train": 1.0})
    stopping = Stopping(Allowance(0.05), [ALONE, *WITHIN])
    assert next(row["step"] for row in rows if stopping.judge(run.spec, row)) == STEPS / 5


@lab.problem(main="m", aux="a", methods=["mixed"], lams=[0.01, 0.02, 0.03, 0.5, 1.0], seeds=[0, 1])
def grows(run):
    for step in range(1, 21):
        run.progress = step / 20
        yield {"step": step, "main_train": (1 + run.lam) / step, "aux_train": 1 / (1 + run.lam)}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sweep_with_an_allowance_recommends_the_same_with_less_training(tmp_path, workers):
    whole = lab.sweep(grows, folder=tmp_path / "whole", workers=0, quiet=True)
    records = lab.sweep(grows, folder=tmp_path / "stopped", workers=workers, allow=0.05, quiet=True)
    assert len(records) == len(whole) == 12
    statuses = {(record.spec.lam, record.spec.seed): (record.status, len(record.metrics)) for record in records}
    assert statuses[0.5, 0] == ("stopped", 4)
    for ruled_out in ((1.0, 0), (0.5, 1), (1.0, 1)):
        assert statuses[ruled_out] == ("stopped", 0)
    assert sum(status == "done" for status, _ in statuses.values()) == 8
    recommended = [[each.lam for each in lab.recommend(runs, allow=0.05)] for runs in (whole, records)]
    assert recommended[0] == recommended[1] == [0.03]
    assert not any((tmp_path / "stopped" / "checkpoints").glob("*"))


def test_a_stopped_run_is_trained_if_the_allowance_grows_or_nothing_is_stopped(tmp_path):
    def statuses(**options):
        records = lab.sweep(grows, folder=tmp_path, workers=0, quiet=True, seeds=[0], **options)
        return [record.status for record in sorted(records, key=lambda record: record.spec.lam)]

    assert statuses(allow=0.05) == ["done"] * 4 + ["stopped"] * 2
    assert statuses(allow=0.01) == ["done"] * 4 + ["stopped"] * 2
    assert statuses(allow=0.3) == ["done"] * 5 + ["stopped"]
    assert statuses() == ["done"] * 6


@pytest.mark.usefixtures("no_figures")
def test_the_command_line_stops_with_an_allowance_and_recommends_for_it(tmp_path, capsys):
    command = ["sweep", f"{__file__}:grows", "--workers", "0", "--allow", "5%", "--seeds", "0"]
    for options, stopped in (([], 2), (["--no-stop"], 0)):
        assert main([*command, "--folder", str(tmp_path / str(stopped)), *options]) == 0
        output = capsys.readouterr().out
        assert output.count(": stopped (") == stopped
        assert "If main may be 5 % worse than main alone" in output
        assert "gs.mixed(lam=0.03)" in output


@pytest.mark.usefixtures("no_figures")
def test_a_dry_run_counts_the_stopped_runs_that_would_be_trained(tmp_path, capsys):
    command = ["sweep", f"{__file__}:grows", "--workers", "0", "--seeds", "0", "--folder", str(tmp_path)]
    assert main([*command, "--allow", "5%"]) == 0
    for options, missing in ((["--allow", "5%"], 0), (["--allow", "50%"], 2), ([], 2)):
        capsys.readouterr()
        assert main([*command, *options, "--dry-run"]) == 0
        assert f", {missing} to train" in capsys.readouterr().out


def test_a_problem_with_a_metric_of_its_own_is_judged_by_it(tmp_path):
    @lab.problem(main="m", aux="a", methods=["mixed"], lams=[0.01, 0.02, 0.03, 0.5], maximise={"main": "accuracy"})
    def measured(run):
        for step in range(1, 21):
            yield {"step": step, "main_train": 1 + run.lam, "aux_train": 1 - run.lam, "accuracy": 0.9}

    records = lab.sweep(measured, folder=tmp_path, workers=0, allow=0.05, quiet=True)
    assert {record.status for record in records} == {"done"}, "main grows, but the accuracy does not fall"
