"""A setting swept together with λ: one grid, one answer, one report; and stored runs selected by it."""

from textwrap import dedent

import pytest

from gradsurgery import lab
from gradsurgery.lab.cli import main

pytestmark = pytest.mark.usefixtures("no_figures")

RATES = """
    from gradsurgery import lab

    @lab.problem(main="m", aux="a", lams=[0.1, 1.0], settings={"rate": 0.1, "name": "x"})
    def rates(run):
        badness = abs(run.settings["rate"] - 0.3)
        yield {"step": 1, "main_train": 1 + badness + 0.1 * run.lam, "aux_train": 5 / (1 + run.lam)}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "rates.py").write_text(dedent(RATES))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def output(capsys, *arguments, code=0):
    assert main(arguments) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


def train(capsys, *more):
    return output(capsys, "sweep", "rates.py:rates", "--methods", "mixed", "--workers", "0", *more)


def test_one_sweep_over_both_gives_one_answer(folder, capsys):
    lines = train(capsys, "--set", "rate=0.1,0.3").splitlines()
    assert lines[-2] == "gs.mixed(lam=0.1)  # with rate = 0.3"
    page = (folder / lines[-1].removeprefix("report: ")).read_text("utf-8")
    assert "<h1>rates, default, rate = 0.1 and 0.3</h1>" in page
    assert 'data-method="mixed, rate = 0.3"' in page
    assert output(capsys, "recommend", "rates", "--set", "rate=0.1,0.3").splitlines()[-1] == lines[-2]


def test_stored_runs_are_selected_by_a_setting(folder, capsys):
    train(capsys, "--set", "rate=0.1,0.3")
    assert "rate" not in output(capsys, "recommend", "rates", "--set", "rate=0.1", "--allow", "10%")
    both = output(capsys, "recommend", "rates", "--allow", "10%")
    assert [line for line in both.splitlines() if line.startswith("rates, ")] == [
        "rates, default, name = x, rate = 0.1",
        "rates, default, name = x, rate = 0.3",
    ]


def test_text_with_a_comma_is_one_value_and_a_name_given_twice_is_two(folder, capsys):
    train(capsys, "--set", "name=a,b", "--set", "name=c")
    with lab.Store("runs") as store:
        assert {record.spec.settings["name"] for record in store.select()} == {"a,b", "c"}


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("rate=5", "no run of rates with rate = 5.0 is stored"),
        ("rat=5", "there is no setting 'rat' of rates: did you mean rate?"),
    ],
)
def test_a_setting_that_no_run_has_is_a_sentence(folder, capsys, setting, sentence):
    train(capsys)
    assert sentence in output(capsys, "recommend", "rates", "--set", setting, code=2)


def test_an_adaptive_grid_takes_one_value(folder, capsys):
    error = output(capsys, "sweep", "rates.py:rates", "--lams", "auto:4", "--set", "rate=0.1,0.3", code=2)
    assert "an adaptive grid takes one value for each setting" in error
