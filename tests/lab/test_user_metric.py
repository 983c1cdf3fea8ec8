"""A problem that names the metrics to judge by: through a sweep, the store, the terminal and the page."""

from textwrap import dedent

import pytest

from gradsurgery import lab
from gradsurgery.lab.cli import main

pytestmark = pytest.mark.usefixtures("no_figures")

CLASSES = """
    from gradsurgery import lab

    @lab.problem(main="cross-entropy", aux="size", lams=[0.1, 1.0], maximise={"main": "accuracy_test"})
    def classes(run):
        # the loss does not suffer from a larger weight, the accuracy does
        yield {"step": 1, "main_test": 1.0, "aux_test": 5 / (1 + run.lam), "accuracy_test": 0.9 - 0.1 * run.lam}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "classes.py").write_text(dedent(CLASSES))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def last_lines(capsys, *arguments):
    assert main(arguments) == 0
    return capsys.readouterr().out.splitlines()


def test_the_metric_is_limited_wherever_an_answer_is_given(folder, capsys):
    page = next(
        line.removeprefix("report: ")
        for line in last_lines(capsys, "sweep", "classes.py:classes", "--methods", "mixed", "--workers", "0")
        if line.startswith("report: ")
    )
    assert (
        "If accuracy_test may be 2\N{NO-BREAK SPACE}% worse than main alone, on accuracy_test and aux loss, test"
        in (folder / page).read_text("utf-8")
    )
    assert "  main: cross-entropy, judged by accuracy_test" in last_lines(capsys, "list", "classes.py:classes")
    for name in ("classes.py:classes", "classes"):  # by its declaration, and by its stored runs alone
        lines = last_lines(capsys, "recommend", name)
        assert lines[0].startswith("If accuracy_test may be 2 % worse than main alone")
        assert lines[1].startswith("  mixed, λ = 0.1: accuracy_test −1.1 %, aux −9.1 %")
    with lab.Store("runs") as store:
        assert lab.recommend(store.select(), allow=0.2)[0].lam == 1.0


def test_a_metric_that_is_declared_later_judges_stored_runs(folder):
    def classes(run):
        yield {"step": 1, "main_test": 1.0, "aux_test": 5 / (1 + run.lam), "accuracy_test": 0.9 - 0.1 * run.lam}

    grid = {"methods": ["mixed"], "lams": [0.1, 1.0], "workers": 0, "quiet": True}
    before = lab.problem(main="m", aux="a")(classes)
    after = lab.problem(main="m", aux="a", maximise={"main": "accuracy_test"})(classes)
    assert [lab.recommend(lab.sweep(each, **grid))[0].lam for each in (before, after)] == [1.0, 0.1]


def test_a_metric_without_its_loss_is_explained():
    with pytest.raises(TypeError, match='maximise must name the metric of "main"'):
        lab.problem(main="m", aux="a", maximise="accuracy_test")


def test_stored_runs_can_be_judged_by_another_metric(folder, capsys):
    last_lines(capsys, "sweep", "classes.py:classes", "--methods", "mixed", "--workers", "0")
    for name in ("classes.py:classes", "classes"):
        lines = last_lines(capsys, "recommend", name, "--minimise", "main=main_test", "--maximise", "aux=aux_test")
        assert lines[0] == "If main may be 2 % worse than main alone (main loss, test and aux_test):"
        assert lines[-1].startswith("Train on main alone")  # a larger λ lowers what is to be maximised
        page = last_lines(capsys, "report", name, "--minimise", "main=accuracy_test")[-1].removeprefix("report: ")
        assert "If accuracy_test may be 2\N{NO-BREAK SPACE}% worse" in (folder / page).read_text("utf-8")
    with lab.Store("runs") as store:
        assert lab.recommend(store.select(), minimise={"main": "accuracy_test"})[0].lam == 1.0


@pytest.mark.parametrize("metric", ["accuracy_test", "other=accuracy_test", "main="])
def test_a_metric_on_the_command_line_says_whose_it_is(metric, capsys):
    assert main(["recommend", "lipschitz", "--maximise", metric]) == 2
    assert f"must be given as main=METRIC or aux=METRIC; got {metric}" in capsys.readouterr().err


def test_two_metrics_for_main_are_a_sentence(capsys):
    for second in ("--maximise", "--minimise"):
        assert main(["recommend", "lipschitz", "--maximise", "main=a", second, "main=b"]) == 2
        assert "must have one metric" in capsys.readouterr().err


def test_an_adaptive_grid_follows_the_metrics_that_the_runs_are_judged_by(tmp_path):
    @lab.problem(main="m", aux="a", maximise={"main": "accuracy"}, minimise={"aux": "size"}, methods=["mixed"])
    def named(run):
        lam = run.lam.ratio if run.lam else 0.0
        yield {"step": 1, "accuracy": 0.9 - 0.05 * lam, "size": 1 / (0.1 + lam)}

    records = lab.sweep(named, folder=tmp_path, lams="relative:auto:7", workers=0, quiet=True)
    assert len(records) == 1 + 7


def test_a_metric_without_the_other_loss_draws_no_empty_chart(tmp_path):
    @lab.problem(main="m", aux="a", maximise={"main": "accuracy"}, methods=["mixed"], lams=[0.1, 1.0])
    def named(run):
        yield {"step": 1, "accuracy": 0.9 - 0.01 * run.lam, "aux_test": 1 / (1 + run.lam)}

    records = lab.sweep(named, folder=tmp_path, workers=0, quiet=True)
    assert lab.report(records, tmp_path / "report").is_file()
