"""The commands that look after a store, as people use them."""

import io
import sys
from collections import Counter

import pytest

import gradsurgery as gs
from gradsurgery import lab
from gradsurgery.lab.cli import main
from gradsurgery.lab.store import Store
from gradsurgery.lab.store.status import read_status
from tests.lab.sweep.toy import install

pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.fixture
def toy(monkeypatch):
    install(monkeypatch.setitem, "toy", "tests.lab.sweep.toy:TOY")


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(command):
        code = main(command.split())
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def record(folder, *lams, seeds=(0,), problem="mine", fails=False):
    for lam in lams:
        for seed in seeds:
            try:
                with lab.Store(folder).run(problem=problem, method=gs.mixed(lam=lam), seed=seed) as run:
                    run.log(step=0, main_train=1.0, aux_train=1.0)
                    if fails:
                        raise OSError("full")
            except OSError:
                assert fails


def stored(folder="runs"):
    with Store(folder) as store:
        return [(record.spec.problem, record.spec.lam, record.spec.seed) for record in store.select(status=None)]


def test_the_version_is_printed(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"gradsurgery {gs.__version__}\n"


def test_status_counts_the_runs_of_each_problem(call):
    record("runs", 0.1, 1.0)
    record("runs", 2.0, fails=True)
    record("runs", 0.1, problem="[bold]")
    code, out, _ = call("status")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["problem", "scale", "done", "failed", "a", "run", "left"],
        ["[bold]", "default", "1"],
        ["mine", "default", "2", "1"],
    ]
    assert call("status --folder other") == (
        2,
        "",
        "gradsurgery: there is no store in other: gradsurgery sweep creates one, --folder names another\n",
    )


def test_a_sweep_announces_its_runs_while_it_trains(tmp_path):
    seen = []

    @lab.problem(main="m", aux="a", lams=[0.1, 1.0])
    def watched(run):
        (status,) = read_status(tmp_path)
        seen.append(+status.counts)
        yield {"step": 0, "main_train": 1.0, "aux_train": 1.0}

    lab.sweep(watched, folder=tmp_path, methods=["mixed"], workers=0, quiet=True)
    assert seen == [+Counter(running=1, waiting=2 - done, done=done) for done in range(3)]


def test_a_dry_run_trains_nothing_and_counts_what_is_stored(call, toy, tmp_path):
    code, out, _ = call("sweep toy --lams 0.1,1 --seeds 0-2 --dry-run")
    assert (code, out.splitlines()[-1]) == (0, "15 runs: 0 stored, 15 to train")
    assert not (tmp_path / "runs").exists()
    assert call("sweep toy --lams 0.1,1 --seeds 0-1 --workers 0")[0] == 0
    code, out, _ = call("sweep toy --lams 0.1,1 --seeds 0-2 --dry-run")
    assert "mixed: 3 runs (λ = 0, 0.1, 1; seed 2)" in out
    assert "15 runs: 10 stored, 5 to train, about " in out
    assert "s a run\n" in out
    assert len(stored()) == 10
    assert "then more λ where the fronts have gaps, up to 9 per method" in call("sweep toy --lams auto:9 --dry-run")[1]


def test_wrong_seeds_are_refused(call, toy):
    assert call("sweep toy --seeds 4-0")[::2] == (
        2,
        "gradsurgery: a range of seeds must go up, as 0-4, by less than 10,000; got 4-0\n",
    )


def test_delete_names_what_it_deletes_and_asks(call, monkeypatch):
    record("runs", 0.1, 1.0, seeds=range(3))
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stdin", terminal)
    questions = []
    monkeypatch.setattr("builtins.input", lambda question: questions.append(question) or "n")
    code, out, err = call("delete mine --lams 0.1 --seeds 1-2")
    assert (code, out, err) == (0, "  mixed: 2 runs (λ = 0.1; seeds 1, 2)\n", "")
    assert questions == ["Delete 2 runs of mine from runs? [y/N] "]
    assert len(stored()) == 6
    monkeypatch.setattr("builtins.input", lambda question: "y")
    assert call("delete mine --lams 0.1 --seeds 1-2")[1].endswith("2 runs of mine deleted\n")
    assert stored() == [("mine", 0.1, 0), *(("mine", 1.0, seed) for seed in range(3))]


def test_delete_without_a_terminal_needs_yes(call, monkeypatch):
    record("runs", 0.1)
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    code, _, err = call("delete mine")
    assert (code, err) == (
        2,
        "gradsurgery: delete asks before it deletes, and here nobody can answer: add --yes\n",
    )
    assert call("delete mine --yes")[0] == 0
    assert stored() == []


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ("--failed", {0.1, 1.0, 3.0}),
        ("--methods mixed --lams 1", {0.1, 2.0, 3.0}),
        ("--lams 1,3 --seeds 0", {0.1, 2.0}),
        ("--scale default", set()),
    ],
)
def test_delete_takes_all_its_options_together(call, options, left):
    record("runs", 0.1, 1.0, 3.0)
    record("runs", 2.0, fails=True)
    assert call(f"delete mine --yes {options}")[0] == 0
    assert {lam for _, lam, _ in stored()} == left


@pytest.mark.parametrize(
    "options",
    [
        "--methods blop",
        "--lams 7",
        "--lams relative:0.1",
        "--lams ,",
        "--seeds 5",
        "--methods ,",
        "--methods blop --failed",
    ],
)
def test_options_that_match_no_run_delete_nothing(call, options):
    record("runs", 0.1)
    code, _, err = call(f"delete mine --yes {options}")
    expected = "no stored run of mine matches all options; it has mixed: 1 run (λ = 0.1; seed 0)"
    assert (code, err) == (2, f"gradsurgery: {expected}\n")
    assert len(stored()) == 1


@pytest.mark.parametrize(
    ("options", "runs"), [("", "2 matching runs of mine"), (" --lams 0.1", "1 matching run of mine")]
)
def test_deleting_failed_runs_is_no_mistake_if_none_failed(call, options, runs):
    record("runs", 0.1, 1.0)
    code, out, err = call(f"delete mine --failed{options}")
    assert (code, out, err) == (0, f"nothing to delete: of {runs}, none failed\n", "")
    assert len(stored()) == 2


def test_rename_and_report_by_the_new_name(call):
    record("runs", 0.1, 1.0)
    assert call("rename mine smooth")[:2] == (0, "2 runs of mine renamed to smooth\n")
    assert call("report smooth")[0] == 0
    assert call("report mine")[0] == 2


def test_merge_says_what_became_of_the_runs(call):
    record("here", 0.1)
    record("there", 0.1, 1.0)
    record("else", 2.0, fails=True)
    code, out, _ = call("merge there else --folder here")
    assert code == 0
    assert out == "there: 1 run added; 1 run the same in both\nelse: 1 run added\n"
    assert {lam for _, lam, _ in stored("here")} == {0.1, 1.0, 2.0}


def test_the_results_in_a_read_only_folder_can_be_read(call, tmp_path, read_only):
    record("theirs", 0.0, 0.1)
    read_only(tmp_path / "theirs")
    assert "mine" in call("status --folder theirs")[1]
    assert call("recommend mine --folder theirs")[0] == 0
    assert call("export mine runs.csv --folder theirs")[0] == 0
    code, out, _ = call("report mine --folder theirs --output pages")
    assert (code, out.splitlines()[-1]) == (0, "report: pages/mine-default/report.html")
    assert [item.name for item in (tmp_path / "theirs").iterdir()] == ["store.sqlite"]
    code, _, err = call("delete mine --yes --folder theirs")
    assert (code, "no permission to write the store" in err) == (1, True)


def test_delete_takes_lams_as_they_are_shown(call):
    record("runs", 0.1389495494373138, 0.1, 1234.5)
    assert call("delete mine --yes --lams 0.1391")[0] == 2
    assert call("delete mine --yes --lams relative:0.139")[0] == 2
    assert call("delete mine --yes --lams 0.139")[0] == 0
    assert {lam for _, lam, _ in stored()} == {0.1, 1234.5}
    assert call("delete mine --yes --lams 1234")[0] == 0
    assert {lam for _, lam, _ in stored()} == {0.1}


def test_delete_takes_taus_as_they_are_shown(call):
    with lab.Store("runs").run(problem="mine", method=gs.pcd(tau=1 / 3)) as run:
        run.log(step=0, main_train=1.0, aux_train=1.0)
    assert call("delete mine --yes --lams 0.333")[0] == 2
    assert call("delete mine --yes --taus 0.333")[0] == 0
    assert stored() == []
