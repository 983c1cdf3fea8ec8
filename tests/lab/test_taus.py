"""τ of ``pcd`` in place of λ, through the whole lab: grid, training, store, report, recommendation."""

import math

import pandas as pd
import pytest

import gradsurgery as gs
from gradsurgery import lab
from gradsurgery.lab.analysis import Allowance, advise, collect_options, group_runs
from gradsurgery.lab.analysis.series import lam_axis
from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.grid import START_TAUS, TAUS, specs
from gradsurgery.lab.lam import Tau
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.store import export_table, export_tensorboard
from gradsurgery.lab.sweep.log import log_path
from tests.paper.training.regression import REFERENCE

pytestmark = pytest.mark.usefixtures("no_figures")


@lab.problem(main="distance to 0", aux="distance to 1", methods=["mixed", "pcd"], lams=[0.1, 1.0])
def walk(run):
    """A walk in the plane."""
    step, x = gs.Reference(run.method), [2.0 + run.seed, -1.0]
    for count in range(20):
        direction = step(x, [x[0] - 1, x[1] - 1])
        x = [value - 0.1 * float(change) for value, change in zip(x, direction, strict=True)]
        yield {"step": count, "main_train": math.hypot(*x), "aux_train": math.dist(x, (1, 1))}


def test_a_grid_varies_tau_in_its_own_range():
    runs = specs(walk, main_alone=True)
    assert [run.lam for run in runs if run.method == "pcd"] == [Tau(tau) for tau in TAUS]
    assert [run.lam for run in runs if run.method == "mixed"] == [0.1, 1.0, 0.0]
    assert [run.lam for run in specs(walk, methods=["pcd"], taus=[0.2])] == [Tau(0.2)]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"methods": ["pcd"], "lams": [0.1]}, "lam has no effect on pcd: give tau instead"),
        ({"methods": ["mixed"], "taus": "0.1"}, "tau has no effect on mixed: leave it out"),
        ({"methods": ["pcd"], "taus": "2"}, "tau must be from 0 to 1; got 2"),
        ({"methods": ["pcd"], "taus": []}, "at least one value in taus"),
    ],
)
def test_weights_that_do_not_apply_are_met_at_the_door(tmp_path, grid, message):
    with pytest.raises(UserError, match=message):
        lab.sweep(walk, folder=tmp_path, workers=0, quiet=True, **grid)


def test_tau_survives_the_store_in_order(tmp_path):
    with lab.Store(tmp_path) as store:
        for tau in (0.3, 1e-5, 0.0):
            with store.run(problem="mine", method=gs.pcd(tau=tau)) as run:
                run.log(step=0, main_train=1.0)
        specs = [record.spec for record in store.select("mine")]
        assert [spec.lam for spec in specs] == [Tau(0.0), Tau(1e-5), Tau(0.3)]
        assert store.get(specs[2].key).spec == RunSpec("mine", "default", "pcd", Tau(0.3), None, 0)
        with pytest.raises(ValueError, match="must have one number as its tau; got"):
            store.run(problem="mine", method=gs.pcd(tau=lambda step: 0.1)).__enter__()
        with pytest.raises(ValueError, match="add beta to settings"):
            store.run(problem="mine", method=gs.pcd(tau=0.1, beta=0.5)).__enter__()


def test_a_sweep_reports_and_recommends_tau(tmp_path):
    records = lab.sweep(walk, folder=tmp_path, seeds=[0, 1], workers=0, quiet=True)
    page = lab.report(records, tmp_path / "report").read_text()
    assert "<dt>τ</dt><dd>7 values from 0 to 1</dd>" in page
    assert r"\u03c4 = 0.3, seed 1" in page
    assert r'"title":"\u03bb or \u03c4"' in page
    best = {each.method: each for each in lab.recommend(records, allow=5.0)}
    assert best["pcd"].code == "gs.pcd(tau=1.0)"
    assert best["pcd"].text.startswith("pcd, τ = 1: main")


def finished_runs(method, lams):
    return [
        RunRecord(
            RunSpec("mine", "default", method, lam, None, 0),
            "done",
            {},
            ({"step": 0, "main_train": 1.0, "aux_train": 1 - 0.1 * place},),
        )
        for place, lam in enumerate(lams)
    ]


@pytest.mark.parametrize(
    ("taus", "hint"),
    [
        ((0.1, 0.3), ("The best τ of pcd is the largest tried: a larger one may improve aux further.",)),
        ((0.1, 1.0), ()),  # no share is larger
    ],
)
def test_a_larger_tau_is_hinted_at_up_to_1(taus, hint):
    records = [*finished_runs("mixed", [0.0]), *finished_runs("pcd", [Tau(0.0), *map(Tau, taus)])]
    assert advise(collect_options(records), Allowance(0.02)).hints == hint


def test_tau_0_is_an_option_and_lam_0_is_main_alone():
    records = [*finished_runs("mixed", [0.0, 0.1]), *finished_runs("pcd", [Tau(0.1), Tau(0.0)])]
    options = collect_options(records).by_method
    assert [option.lam for option in options["pcd"]] == [Tau(0.1), Tau(0.0)]
    assert [option.lam for option in options["mixed"]] == [0.1]


def test_sentences_name_tau_where_there_is_no_lam():
    records = [*finished_runs("mixed", [0.0]), *finished_runs("pcd", [Tau(0.3)])]  # the same losses
    advice = advise(collect_options(records), Allowance(0.02))
    assert advice.hints == ("No τ improves aux: does the method get the right loss?",)
    assert advice.recommendations[0].text.startswith("pcd: no τ within the allowance improves aux (closest: τ = 0.3")
    assert lam_axis(group_runs(records)) == "τ"


def test_mixed_keeps_lam_0_beside_pcd_if_all_methods_with_a_lam_have_it():
    records = [
        *finished_runs("mixed", [0.0, 0.1]),
        *finished_runs("bloop", [0.0, 0.1]),
        *finished_runs("pcd", [Tau(0.1)]),
    ]
    by_method = {group.variant.method: len(group.records) for group in group_runs(records)}
    assert by_method == {"bloop": 2, "mixed": 2, "pcd": 1}


@lab.problem(main="nothing to lose", aux="falls with the share")
def free(run):
    share = getattr(run.method, "tau", 0.0)
    yield {"step": 0, "main_train": 1.0 + 0.01 * share, "aux_train": 1.0 - 0.9 * share}


def test_an_adaptive_grid_varies_tau_up_to_1(tmp_path):
    records = lab.sweep(free, folder=tmp_path, methods=["pcd"], lams="auto:6", workers=0, quiet=True)
    taus = [record.spec.lam.share for record in records if record.spec.method == "pcd"]
    assert set(START_TAUS) < set(taus)
    assert len(taus) <= 6
    assert max(taus) == 1.0


def test_exports_and_logs_have_tau(tmp_path):
    record = finished_runs("pcd", [Tau(0.3)])[0]
    export_table([record], tmp_path / "runs.parquet")
    row = pd.read_parquet(tmp_path / "runs.parquet").iloc[0]
    assert (row["tau"], row["relative"], math.isnan(row["lam"])) == (0.3, False, True)
    export_tensorboard([record], tmp_path / "events")
    assert next((tmp_path / "events").rglob("pcd_tau=0.3_seed=0_*"))
    assert log_path(tmp_path, record.spec).name.startswith("mine-pcd-tau=0.3-seed=0-")


def test_tau_on_the_command_line(tmp_path, monkeypatch, capsys):
    file = tmp_path / "mine.py"
    file.write_text(
        "from gradsurgery import lab\n"
        "@lab.problem(main='a', aux='b')\n"
        "def mine(run):\n"
        "    yield {'step': 0, 'main_train': 1.0, 'aux_train': 1.0 - run.method.tau}\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["run", "mine.py:mine", "--method", "pcd", "--tau", "0.3", "--workers", "0"]) == 0
    assert main(["delete", "mine", "--taus", "0.1", "--yes"]) == 2
    assert "pcd: 1 run (τ = 0.3; seed 0)" in capsys.readouterr().err
    assert main(["delete", "mine", "--taus", "0.3", "--yes"]) == 0
    command = ["sweep", "mine.py:mine", "--methods", "pcd", "--taus", "0.1,0.2", "--dry-run"]
    assert main(command) == 0
    assert "pcd: 2 runs (τ = 0.1, 0.2; seed 0)" in capsys.readouterr().out


def test_compiled_training_traces_tau(tmp_path):
    """One program serves all τ."""
    records = lab.sweep(
        REFERENCE, folder=tmp_path, methods=["pcd"], taus=[0.1, 0.5], main_alone=False, workers=0, quiet=True
    )
    assert len({record.final["aux_train"] for record in records}) == 2
