"""Several auxiliary losses, most important first, through the whole lab: grid, training, store, report, answer."""

import math

import numpy as np
import pandas as pd
import pytest

import gradsurgery as gs
from gradsurgery import lab
from gradsurgery.lab.analysis import Allowance, advise, collect_options, group_runs
from gradsurgery.lab.analysis.level_costs import level_costs
from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.grid import specs
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.store import export_table
from gradsurgery.lab.sweep.log import log_path

pytestmark = pytest.mark.usefixtures("no_figures")
NAMES = ("main", "aux", "aux2")


@lab.problem(
    main="distance to a plane", aux=("distance to a point", "size"), lams=([0.1, 1.0], [0.1]), settings={"steps": 30}
)
def ranked(run):
    """Three quadratics in three dimensions, of which main sees one and aux two."""
    step, x = gs.Reference(run.method), np.array([3.0 + run.seed, -1.0, 2.0])
    for count in range(run.settings["steps"]):
        gradients = np.array([x[0] - 1, 0, 0]), np.array([x[0] - 2, x[1] - 1, 0]), x
        x = x - 0.2 * step(*gradients)
        distances = abs(x[0] - 1) + 0.1, math.dist(x[:2], (2, 1)), math.hypot(*x)
        yield {"step": count} | {f"{name}_train": value for name, value in zip(NAMES, distances, strict=True)}


def lams_of(runs, method):
    return [run.lam for run in runs if run.method == method]


def test_the_grid_is_a_product_with_0_for_the_last_loss_and_main_alone():
    pairs = [(0.1, 0.0), (0.1, 0.1), (1.0, 0.0), (1.0, 0.1)]
    runs = specs(ranked, main_alone=True)
    assert lams_of(runs, "bloop") == pairs
    assert lams_of(runs, "mixed") == [*pairs, (0.0, 0.0)]
    assert lams_of(specs(ranked), "bloop") == [(0.1, 0.1), (1.0, 0.1)]


def test_one_list_is_for_every_loss():
    assert lams_of(specs(ranked, methods=["bloop"], lams="0.1,1"), "bloop") == [
        (0.1, 0.1), (0.1, 1.0), (1.0, 0.1), (1.0, 1.0),
    ]  # fmt: skip


def test_main_alone_is_one_run_and_so_is_a_lower_lam_of_0():
    lists = ("relative:0,0.3", "relative:0,0.1")
    runs = specs(ranked, lams=lists, main_alone=True)
    assert lams_of(runs, "mixed") == [
        (0.0, 0.0), (gs.relative(0.0), gs.relative(0.1)), (gs.relative(0.3), 0.0), (gs.relative(0.3), gs.relative(0.1)),
    ]  # fmt: skip


def test_the_default_grid_is_coarser_for_lower_losses():
    @lab.problem(main="a", aux=("b", "c"))
    def mine(run):
        yield {}

    assert len(specs(mine, methods=["bloop"], main_alone=True)) == 7 * (3 + 1) + 1


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"methods": ["pcgrad"]}, "pcgrad takes one auxiliary loss, but ranked has 2"),
        ({"methods": ["pcd"]}, "pcd takes one auxiliary loss, but ranked has 2"),
        (
            {"lams": ([0.1], [0.1], [0.1])},
            "lams of ranked must be one list for all auxiliary losses, or 2; got 3 lists",
        ),
        ({"lams": "auto:9"}, "an adaptive grid takes one auxiliary loss: give --lams in full"),
        ({"lams": ([0.1], [-1.0])}, "lam weighs the auxiliary gradient, so it must be at least 0; got -1"),
        ({"lams": ([0.1], [])}, "at least one value in lams"),
    ],
)
def test_a_grid_that_cannot_be_trained_is_met_at_the_door(tmp_path, grid, message):
    with pytest.raises(UserError, match=message):
        lab.sweep(ranked, folder=tmp_path, workers=0, quiet=True, **grid)


def test_two_lists_need_two_auxiliary_losses(tmp_path):
    @lab.problem(main="a", aux="b", lams=([0.1], [0.1]))
    def mine(run):
        yield {}

    with pytest.raises(UserError, match="lams of mine must be one list; got 2 lists"):
        lab.sweep(mine, folder=tmp_path, quiet=True)


def test_a_row_has_every_loss(tmp_path):
    @lab.problem(main="a", aux=("b", "c"))
    def mine(run):
        yield {"step": 0, "main_train": 1.0, "aux_train": 1.0, "aux_2_train": 1.0}

    with pytest.raises(
        UserError, match="the first row of mine must have aux2_train or aux2_test; got step, main_train"
    ):
        lab.sweep(mine, folder=tmp_path, workers=0, quiet=True)


def test_a_sweep_is_stored_resumed_reported_and_recommends_both_lams(tmp_path):
    first = lab.sweep(ranked, folder=tmp_path, seeds=[0], workers=0, quiet=True)
    records = lab.sweep(ranked, folder=tmp_path, seeds=[0, 1], workers=0, quiet=True)
    assert len(records) == 2 * len(first) == 18
    by_key = {record.spec.key: record for record in records}
    assert all(by_key[record.spec.key].metrics == record.metrics for record in first)
    with lab.Store(tmp_path) as store:
        assert {record.spec.key for record in store.select("ranked")} == by_key.keys()
    page = lab.report(records, tmp_path / "report").read_text()
    assert "<dt>λ₁</dt><dd>0, 0.1, 1</dd>" in page
    assert "<dt>λ₂</dt><dd>0, 0.1</dd>" in page
    assert "Cost of a loss" in page
    assert "against λ₂\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}0" in page
    assert 'data-split="aux2">aux, aux2</button>' in page
    assert [group.label for group in group_runs(records)] == [
        "bloop, λ₂ = 0", "bloop, λ₂ = 0.1", "mixed, λ₂ = 0", "mixed, λ₂ = 0.1",
    ]  # fmt: skip
    best = {each.method: each for each in lab.recommend(records, allow=10.0)}  # any main and aux: aux2 decides
    assert best["mixed"].code == "gs.mixed(lam=(0.1, 0.1))"
    assert best["bloop"].text.startswith("bloop, λ₁ = ")


def finished(lam, main, aux, aux2, *, method="bloop", seed=0):
    rows = ({"step": 0, "main_test": main, "aux_test": aux, "aux2_test": aux2},)
    return RunRecord(RunSpec("mine", "default", method, lam, None, seed), "done", {}, rows)


ALONE = finished((0.0, 0.0), 1.0, 1.0, 1.0, method="mixed")


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ({(1.0, 0.0): (1.0, 0.5, 0.9), (1.0, 0.1): (1.0, 0.509, 0.3)}, (1.0, 0.1)),  # aux within 2 % of the best
        ({(1.0, 0.0): (1.0, 0.5, 0.9), (1.0, 0.1): (1.0, 0.52, 0.3)}, (1.0, 0.0)),  # aux comes first
        ({(1.0, 0.0): (1.03, 0.5, 0.3), (0.1, 0.1): (1.01, 0.8, 0.9)}, (0.1, 0.1)),  # and main before it
        ({(1.0, 0.1): (1.0, 0.5, 1.5), (0.1, 0.1): (1.0, 0.9, 0.5)}, (1.0, 0.1)),  # even if aux2 gets worse
    ],
)
def test_a_lower_loss_decides_among_options_that_are_as_good_above(ends, expected):
    records = [ALONE, *(finished(lam, *values) for lam, values in ends.items())]
    advice = advise(collect_options(records), Allowance(0.02))
    assert advice.best.lam == expected


def test_a_method_with_a_slightly_worse_aux_is_first_if_its_second_is_better():
    records = [ALONE, finished((1.0, 0.1), 1.0, 0.5, 0.9), finished((1.0, 0.1), 1.0, 0.505, 0.3, method="mixed")]
    advice = advise(collect_options(records), Allowance(0.02))
    assert [each.method for each in advice.recommendations] == ["mixed", "bloop"]


def test_three_auxiliary_losses_are_named_and_written_as_code():
    lam = (0.3, gs.relative(0.1), 0.0123456)
    rows = ({"step": 0, **{f"{name}_train": 0.5 for name in (*NAMES, "aux3")}},)
    records = [
        RunRecord(
            RunSpec("mine", "default", "mixed", (0.0, 0.0, 0.0), None, 0), "done", {}, ({**rows[0], "aux_train": 1.0},)
        ),
        RunRecord(RunSpec("mine", "default", "bloop", lam, 0.01, 0), "done", {}, rows),
    ]
    best = advise(collect_options(records), Allowance(0.02)).best
    assert best.code == "gs.bloop(lam=(0.3, gs.relative(0.1), 0.0123), rho=0.01)"
    assert best.text.startswith("bloop, λ₁ = 0.3, relative λ₂ = 0.1, λ₃ = 0.0123, ρ = 0.01: main")
    assert "aux3 +0.0 %" in best.text


def test_the_cost_of_a_loss_is_its_change_from_lam_0_paired_by_seed():
    records = []
    for seed, scale in enumerate((1.0, 2.0)):
        records += [
            finished((0.0, 0.0), scale, scale, scale, method="mixed", seed=seed),
            finished((1.0, 0.0), scale, 0.5 * scale, scale, seed=seed),
            finished((1.0, 0.1), 1.01 * scale, 0.501 * scale, 0.5 * scale, seed=seed),
            finished((1.0, 0.3), 1.1 * scale, 0.6 * scale, 0.25 * scale, seed=seed),
            finished((0.1, 0.3), 1.1 * scale, 0.9 * scale, 0.25 * scale, seed=seed),
        ]
    costs = level_costs(advise(collect_options(records), Allowance(0.02)))
    assert [(cost.option.lam, cost.without) for cost in costs] == [((1.0, 0.1), "λ₂ = 0"), ((1.0, 0.3), "λ₂ = 0")]
    assert [change.fraction().mean for change in costs[1].changes] == pytest.approx([0.1, 0.2, -0.75])


def test_several_lams_survive_the_store_in_order(tmp_path):
    lams = [(0.1, 0.01), (0.1, gs.relative(0.3)), (gs.relative(0.2), 0.0), (1.0, 0.01), (10.0, 0.01)]
    with lab.Store(tmp_path) as store:
        for lam in reversed(lams):
            with store.run(problem="mine", method=gs.mixed(lam=lam)) as run:
                run.log(step=0, main_train=1.0)
        assert [record.spec.lam for record in store.select("mine")] == lams
        with pytest.raises(ValueError, match="must have one number as its lam; got"):
            store.run(problem="mine", method=gs.mixed(lam=(0.1, lambda step: 0.1))).__enter__()
    assert len({RunSpec("mine", "default", "mixed", lam, None, 0).key for lam in lams}) == len(lams)


def test_exports_and_logs_have_every_lam(tmp_path):
    record = finished((0.3, gs.relative(0.1)), 1.0, 1.0, 1.0)
    export_table([record, finished(0.5, 1.0, 1.0, 1.0)], tmp_path / "runs.parquet")
    table = pd.read_parquet(tmp_path / "runs.parquet")
    assert list(table["lam"]) == [0.3, 0.5]
    assert (table["lam2"][0], table["relative2"][0]) == (0.1, True)
    assert math.isnan(table["lam2"][1])
    assert log_path(tmp_path, record.spec).name.startswith("mine-bloop-lam=_0.3__relative_0.1__-seed=0")


def test_lams_of_each_loss_on_the_command_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "mine.py").write_text(
        "from gradsurgery import lab\n"
        "@lab.problem(main='a', aux=('b', 'c'))\n"
        "def mine(run):\n"
        "    first, second = run.method.lam\n"
        "    yield {'step': 0, 'main_train': 1.0, 'aux_train': 1 / (1 + first), 'aux2_train': 1 / (1 + second)}\n"
    )
    monkeypatch.chdir(tmp_path)
    sweep = ["sweep", "mine.py:mine", "--methods", "mixed", "--lams", "0.1,1", "--lams", "0.2", "--workers", "0"]
    assert main([*sweep, "--dry-run"]) == 0
    assert "mixed: 5 runs (λ₁ = 0, 0.1, 1; λ₂ = 0, 0.2; seed 0)" in capsys.readouterr().out
    assert main(sweep) == 0
    printed = capsys.readouterr().out
    assert "mixed, λ₁ = 1, λ₂ = 0.2 against λ₂ = 0: main +0.0 %, aux +0.0 %, aux2 −16.7 %" in printed
    assert "gs.mixed(lam=(1.0, 0.2))" in printed
    assert main(["run", "mine.py:mine", "--method", "mixed", "--lam", "3", "--lam", "0.2", "--workers", "0"]) == 0
    assert main(["delete", "mine", "--lams", "0.1,1", "--lams", "0.2", "--yes"]) == 0
    assert "2 runs of mine deleted" in capsys.readouterr().out
    assert main(["list", "mine.py:mine"]) == 0
    listed = capsys.readouterr().out
    assert "relative 0.03 … 3 ×" in listed
    assert "metabalance" in listed
    assert "pcgrad" not in listed


def test_aux_is_a_text_or_texts():
    with pytest.raises(TypeError, match="aux must be a string, or a tuple of strings; got"):
        lab.problem(main="a", aux=("b", 2))
    assert lab.problem(main="a", aux=["b"])(ranked.train).aux == "b"
