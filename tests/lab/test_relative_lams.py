"""λ relative to the gradients' norms, through the whole lab: grid, training, store, report, recommendation."""

import math

import pytest

import gradsurgery as gs
from gradsurgery import lab
from gradsurgery.lab.analysis import group_runs
from gradsurgery.lab.cli import main
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.find import find_problem
from gradsurgery.lab.grid import specs
from gradsurgery.lab.notation import parse_lams
from gradsurgery.lab.reports.figures import draw_mixed_loss
from gradsurgery.lab.run import RunRecord, RunSpec
from tests.lab.sweep.toy import install
from tests.paper.training.regression import REFERENCE

pytestmark = pytest.mark.usefixtures("no_figures")


@lab.problem(main="distance to 0", aux="distance to 1")
def walk(run):
    """A walk in the plane, with aux a million times as large as main."""
    step, x = gs.Reference(run.method), [2.0, -1.0]
    for count in range(20):
        direction = step(x, [1e6 * (x[0] - 1), 1e6 * (x[1] - 1)])
        x = [value - 0.1 * float(change) for value, change in zip(x, direction, strict=True)]
        yield {"step": count, "main_train": math.hypot(*x), "aux_train": 1e6 * math.dist(x, (1, 1))}


def test_a_relative_lam_is_another_run_and_survives_the_store(tmp_path):
    plain, relative = (RunSpec("mine", "default", "mixed", lam, None, 0) for lam in (0.3, gs.relative(0.3)))
    assert plain.key != relative.key
    with lab.Store(tmp_path) as store:
        for spec in (plain, relative):
            store.begin(spec, {})
            store.log(spec.key, {"step": 0, "main_train": 1.0})
            store.finish(spec.key)
        assert [record.spec for record in store.select()] == [plain, relative]
        assert store.get(relative.key).spec == relative


def test_main_alone_is_one_run_beside_a_relative_grid():
    runs = specs(walk, "default", lams=[gs.relative(0.0), gs.relative(0.3)], main_alone=True)
    assert [(run.method, run.lam) for run in runs] == [
        ("mixed", 0.0), ("mixed", gs.relative(0.3)), ("bloop", gs.relative(0.0)), ("bloop", gs.relative(0.3)),
    ]  # fmt: skip


def test_a_problem_without_gradients_of_a_step_refuses_a_relative_lam(tmp_path):
    with pytest.raises(UserError, match="noise draws many gradients at one λ, so λ cannot be relative"):
        lab.sweep("noise", folder=tmp_path, lams="relative:1", workers=0, quiet=True)


def test_stored_runs_are_in_the_order_of_their_lams(tmp_path):
    lams = [1e-5, 0.3, 3.0, 10.0]
    with lab.Store(tmp_path) as store:
        for lam in reversed(lams):
            for spec_lam in (lam, gs.relative(lam)):
                with store.run(problem="mine", method=gs.mixed(lam=spec_lam)) as run:
                    run.log(step=0, main_train=1.0)
        specs = [record.spec for record in store.select("mine")]
    assert [spec.lam for spec in specs] == [*lams, *map(gs.relative, lams)]


def finished_runs(method, lams, *, unit=gs.relative):
    return [
        RunRecord(
            RunSpec("mine", "default", method, unit(lam), None, 0),
            "done",
            {},
            ({"step": 0, "main_train": 1 + lam, "aux_train": 1 - lam, "bleu": 3.0},),
        )
        for lam in lams
    ]


@pytest.mark.parametrize("lams", [(0.1, 0.3), (0.0, 0.1, 0.3)])
@pytest.mark.parametrize("methods", [("mixed",), ("bloop", "mixed")])
def test_main_alone_is_no_series_beside_mixed_with_relative_lams(methods, lams):
    records = [
        *finished_runs("mixed", [0.0], unit=float),
        *(record for method in methods for record in finished_runs(method, lams)),
    ]
    groups = group_runs(records)
    assert [group.label for group in groups] == list(methods)
    assert all(isinstance(record.spec.lam, gs.relative) for group in groups for record in group.records)


def test_a_report_says_that_lams_are_relative(tmp_path):
    alone = finished_runs("mixed", [0.0], unit=float)
    both = [*finished_runs("mixed", [0.1, 0.3]), *finished_runs("bloop", [0.1, 0.3])]
    page = lab.report([*alone, *both], tmp_path).read_text()
    assert "<dt>Relative λ</dt><dd>0.1, 0.3</dd>" in page
    assert "<dt>λ</dt>" not in page
    assert '<th scope="col">relative λ</th><th scope="col">bleu</th>' in page
    assert r'"title":"relative \u03bb"' in page
    assert r"relative \u03bb = 0.1" in page
    page = lab.report([*alone, *both, *finished_runs("bloop", [0.5], unit=float)], tmp_path).read_text()
    assert "<dt>λ</dt><dd>0.5</dd>" in page
    assert r'"title":"\u03bb"' in page


def test_the_axis_of_a_figure_says_that_lams_are_relative():
    for unit, label in ((gs.relative, r"relative $\lambda$"), (float, r"$\lambda$")):
        figure = draw_mixed_loss(group_runs(finished_runs("bloop", [0.1, 0.3], unit=unit)))
        assert {panel.get_xlabel() for panel in figure.axes} == {label}


def test_stored_runs_keep_their_keys():
    keys = [RunSpec("lipschitz", "demo", "bloop", lam, 0.03, 0, {"epochs": 3}).key for lam in (0.1, gs.relative(0.1))]
    assert keys == ["2e685e282e2c6666", "0b1fd04b69a4824d"]


def test_a_problem_that_names_no_lams_is_swept_over_relative_ones(tmp_path):
    records = lab.sweep(walk, folder=tmp_path, workers=0, quiet=True)
    swept = [record.spec.lam for record in records if record.spec.lam]
    assert len(swept) == 2 * 7
    assert all(0.03 <= lam.ratio <= 3 for lam in swept)
    assert [record.spec.lam for record in records if not record.spec.lam] == [0.0]
    best = lab.recommend(records, allow=0.5)
    assert all(isinstance(recommendation.lam, gs.relative) for recommendation in best)
    assert "relative λ = " in best[0].text
    assert r"relative \u03bb = 0.3" in lab.report(records, tmp_path / "report").read_text()


@pytest.mark.slow
def test_the_command_line_takes_relative_lams(tmp_path, capsys, monkeypatch):
    install(monkeypatch.setitem, "regression", REFERENCE)
    command = ["sweep", "regression", "--methods", "bloop", "--workers", "0", "--folder", str(tmp_path)]
    assert main([*command, "--lams", "relative:0.1,1"]) == 0
    assert main([*command, "--lams", "0.1"]) == 0
    output = capsys.readouterr().out
    assert "bloop relative λ=0.1 ρ=0.1 seed 0: " in output
    with lab.Store(tmp_path) as store:
        runs = {record.spec.lam: record.final for record in store.select("regression")}
    assert set(runs) == {gs.relative(0.1), gs.relative(1.0), 0.1, 0.0}
    assert len({row["main_train"] for row in runs.values()}) == 4


def test_a_grid_of_relative_lams():
    grid = {"methods": ["bloop", "cosine"], "seeds": [0], "lams": parse_lams("relative:0.03:3:3log")}
    runs = specs(find_problem("lipschitz"), "demo", **grid)
    assert [(run.method, run.lam) for run in runs] == [
        *(("bloop", gs.relative(ratio)) for ratio in (0.03, 0.3, 3.0)), ("cosine", None),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["relative:x", "relative:-1", "relative:"])
def test_a_wrong_relative_lam_is_one_sentence(tmp_path, text, capsys):
    assert main(["sweep", "lipschitz", "--lams", text, "--folder", str(tmp_path / "runs")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "runs").exists()
