"""The command line as people use it, and what it says about their mistakes."""

import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from gradsurgery.lab.cli import main
from gradsurgery.lab.find import find_problem, installed_problems
from gradsurgery.lab.store import Store
from tests.lab.sweep.toy import install, toy_runs

SMALL = (
    *("--set", "epochs=1", "--seeds", "0", "--lams", "0.01,1", "--methods", "mixed,bloop"),
    *("--workers", "1"),  # each worker compiles the programs again
)


@pytest.fixture
def toy(monkeypatch, no_figures):
    install(monkeypatch.setitem, "toy", "tests.lab.sweep.toy:TOY")


def call(capsys, *arguments):
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def sweep_toy(capsys, folder, *arguments):
    return call(capsys, "sweep", "toy", "--workers", "0", "--folder", str(folder), *arguments)


def test_list_shows_every_problem(capsys):
    code, out, _ = call(capsys, "list")
    assert code == 0
    for name in installed_problems():
        problem = find_problem(name)
        assert f"{name}: {problem.title}" in " ".join(out.split())


def test_help_teaches_by_example(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", "--help"])
    assert stopped.value.code == 0
    assert "gradsurgery sweep lipschitz --methods mixed,bloop --lams 0,1e-4:1:9log" in capsys.readouterr().out


def test_without_a_command_the_help_is_shown(capsys):
    code, out, err = call(capsys)
    assert (code, err) == (2, "")
    assert "train a grid of methods, λ and seeds, and write a report" in out


@pytest.mark.slow
def test_a_real_sweep_ends_with_the_table_and_the_report(capsys, tmp_path):
    code, out, _ = call(capsys, "sweep", "lipschitz", *SMALL, "--folder", str(tmp_path))
    assert code == 0
    lines = out.splitlines()
    assert sum(line.startswith("[") for line in lines) == 5, "4 runs and main alone"
    assert "hypervolume" in out
    page = lines[-1].removeprefix("report: ")
    assert Path(page).parts[-3:-1] != ("report", "lipschitz-demo"), "the settings are not those of the scale"
    assert "<dt>Main</dt><dd>cross-entropy</dd>" in Path(page).read_text("utf-8")
    code, out, _ = call(capsys, "report", "lipschitz", "--folder", str(tmp_path))
    assert (code, out.splitlines()[-1]) == (0, f"report: {page}")
    code, out, _ = call(capsys, "export", "lipschitz", str(tmp_path / "runs.csv"), "--folder", str(tmp_path))
    assert (code, out.split()[0]) == (0, "5")
    assert '"method","lam","relative","tau","rho","seed"' in (tmp_path / "runs.csv").read_text()


@pytest.mark.slow
def test_a_real_run_prints_its_numbers(capsys, tmp_path):
    arguments = ["--method", "bloop", "--lam", "0.1", "--set", "epochs=1", "--folder", str(tmp_path)]
    code, out, _ = call(capsys, "run", "lipschitz", *arguments)
    assert code == 0
    assert "main_train" in out
    assert "surgery/removed" in out


def test_a_small_sweep_keeps_the_report_of_a_large_one(capsys, tmp_path, toy):
    sweep_toy(capsys, tmp_path)
    code, out, _ = sweep_toy(capsys, tmp_path, "--lams", "7", "--methods", "mixed")
    assert code == 0
    page = Path(out.splitlines()[-1].removeprefix("report: "))
    assert "<dt>Runs</dt><dd>6" in page.read_text("utf-8"), "4 runs, 1 more, and main alone"


def test_a_sweep_with_other_settings_has_its_own_report(capsys, tmp_path, toy):
    pages = []
    for arguments in ((), ("--set", "chunks=2"), ("--set", "chunks=4")):
        _, out, _ = sweep_toy(capsys, tmp_path, "--lams", "7", *arguments)
        pages.append(Path(out.splitlines()[-1].removeprefix("report: ")))
        assert "<dt>Runs</dt><dd>3<" in pages[-1].read_text("utf-8"), "2 runs and main alone"
    assert pages[0] == pages[2] != pages[1], "4 chunks are the default"


def test_sweeps_with_other_settings_are_reported_side_by_side(capsys, tmp_path, toy):
    for arguments in ((), ("--set", "chunks=2")):
        sweep_toy(capsys, tmp_path, *arguments)
    code, out, _ = call(capsys, "report", "toy", "--folder", str(tmp_path))
    assert code == 0
    index = Path(out.splitlines()[-1].removeprefix("index: "))
    assert index == tmp_path / "report" / "index.html"
    headings = re.findall(r'<h2><a href="(.*?)">(.*?)</a></h2>', index.read_text("utf-8"))
    assert [title for _, title in headings] == ["toy, demo", "toy, demo, chunks = 2"]
    for address, title in headings:
        assert f"<title>{title}</title>" in (index.parent / address).read_text("utf-8")


def test_recommendations_are_made_for_each_set_of_settings(capsys, tmp_path, toy):
    for arguments in ((), ("--set", "chunks=2")):
        sweep_toy(capsys, tmp_path, *arguments)
    code, out, _ = call(capsys, "recommend", "toy", "--allow", "1e9", "--folder", str(tmp_path))
    assert code == 0
    assert [line for line in out.splitlines() if line.startswith("toy")] == ["toy, demo", "toy, demo, chunks = 2"]
    assert out.count("If main may be 1e+09 worse than main alone") == 2


def test_several_problems_are_reported_and_each_must_have_runs(capsys, tmp_path, toy):
    sweep_toy(capsys, tmp_path)
    code, _, err = call(capsys, "report", "toy", "noise", "--folder", str(tmp_path))
    assert code == 2
    assert "no run of noise at scale demo is stored in" in err
    assert not (tmp_path / "report" / "index.html").exists()


def test_failed_runs_are_reported_and_the_exit_code_is_1(capsys, tmp_path, toy):
    (tmp_path / "mixed-fails").touch()
    arguments = ("--workers", "2", "--data-dir", str(tmp_path), "--folder", str(tmp_path / "runs"))
    code, out, err = call(capsys, "sweep", "toy", *arguments)
    assert code == 1
    assert "mixed λ=0.5 seed 0: failed (RuntimeError: mixed fails; see " in out
    assert "3 of 5 runs failed" in out
    assert "report: " in out
    assert err.count("\n") == 1
    failure = re.search(r"gradsurgery: 3 of 5 runs failed \(RuntimeError: mixed fails here; see (.+)\): the same", err)
    assert 'raise RuntimeError(f"{run.method} fails\\nhere")' in Path(failure[1]).read_text()


def test_text_is_never_parsed_as_markup(capsys, tmp_path, toy):
    folder = tmp_path / "k" / "br[/b]"
    code, out, err = sweep_toy(capsys, folder)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == f"report: {folder}/report/toy-demo/report.html"
    with sqlite3.connect(folder / "store.sqlite") as db:
        db.execute("UPDATE runs SET method = '[/x]' WHERE method = 'mixed'")
    db.close()
    code, out, err = call(capsys, "report", "toy", "--folder", str(folder))
    assert (code, err) == (0, "")
    assert "[/x]" in out


def test_a_sweep_works_where_git_is_not_installed(capsys, tmp_path, toy, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sweep_toy(capsys, tmp_path)[0] == 0
    with Store(tmp_path / "store.sqlite") as store:
        assert store.get(toy_runs()[0].key).info["commit"] == ""


@pytest.mark.parametrize(
    "arguments", [["list"], ["--help"], ["sweep", "--help"], ["sweep", "lipshitz"], ["report", "lipschitz"]]
)
def test_help_list_and_mistakes_load_no_heavy_library(arguments, tmp_path):
    """They answer in a fraction of a second; jax alone takes one."""
    code = f"""
import sys
from gradsurgery.lab.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
heavy = ["jax", "flax", "optax", "orbax", "datasets", "matplotlib", "plotly", "pyarrow", "sklearn", "torch"]
print("loaded:", [name for name in heavy if name in sys.modules])
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=dict(os.environ)
    )
    assert result.stdout.splitlines()[-1] == "loaded: []"


@pytest.mark.parametrize("command", [["report", "toy"], ["export", "toy", "runs.csv"]])
def test_a_folder_without_a_store_is_refused_and_not_created(capsys, tmp_path, toy, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    code, out, err = call(capsys, *command, "--folder", "rnus")
    assert (code, out) == (2, "")
    assert "there is no store in rnus" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("scale", "sentence"),
    [("nope", "there is no scale 'nope' of lipschitz"), ("paper", "no finished run of lipschitz at scale")],
)
def test_an_export_of_nothing_is_refused(capsys, tmp_path, toy, scale, sentence):
    sweep_toy(capsys, tmp_path)
    path = tmp_path / "runs.csv"
    code, out, err = call(capsys, "export", "lipschitz", str(path), "--scale", scale, "--folder", str(tmp_path))
    assert (code, out) == (2, "")
    assert sentence in err
    assert not path.exists()


# ends soon even where the mistake is not refused
ONE_RUN = ["run", "conditioning", "--method", "mixed", "--lam", "1", "--set", "steps=10", "--workers", "0"]
MISTAKES = {
    "problem": (["sweep", "lipshitz"], "there is no problem 'lipshitz': did you mean lipschitz?"),
    "scale": (["sweep", "lipschitz", "--scale", "tiny"], "there is no scale 'tiny' of lipschitz"),
    "method": (["sweep", "lipschitz", "--methods", "blop"], "there is no method 'blop': did you mean bloop?"),
    "lam": (["run", "lipschitz", "--method", "bloop", "--lam=-1"], "lam weighs the auxiliary gradient"),
    "rho": (["sweep", "lipschitz", "--rhos", "0"], "above 0 and at most 1; got 0"),
    "grid": (["sweep", "lipschitz", "--lams", ","], "at least one value in lams; got none"),
    "no grid": (["sweep", "lipschitz", "--lams", "many"], "a grid must be numbers and ranges"),
    "setting": (["sweep", "lipschitz", "--set", "epochs"], "a setting must be given as NAME=VALUE; got 'epochs'"),
    "seeds": (["sweep", "lipschitz", "--seeds", "0.5"], "seeds must be whole numbers from 0 to 2147483647; got 0.5"),
    "option": (["sweep", "lipschitz", "--lambda", "1"], "unrecognized arguments"),
    "command": (["swep"], "invalid choice"),
    "several": (["run", "lipschitz", "--method", "bloop"], "this names 9 runs"),
    "several weights": (["run", "lipschitz", "--method", "bloop", "--lam", "0.1,0.5"], "this names 2 runs"),
    "endless seed": (["sweep", "lipschitz", "--seeds", "inf"], "seeds must be whole numbers from 0"),
    "number": (["sweep", "language", "--set", "batch=-1"], "the setting batch must be a whole number from 1"),
    "no number": (
        ["sweep", "language", "--set", "learning_rate=nan"],
        "learning_rate must be a number above 0; got 'nan'",
    ),
    "no name": (["sweep", "language", "--set", "main_data="], "the setting main_data must be a name; got ''"),
    "heads": (["sweep", "language", "--set", "heads=3"], "width must be a multiple of heads"),
    "time limit": (
        ["sweep", "lipschitz", "--time-limit", "soon"],
        "a time must be a number of seconds from 0, or one with s, m, h or d such as 30m; got soon",
    ),
    "rows": (["sweep", "language", "--set", "steps=30"], "steps must be a multiple of rows; got 30 steps"),
    "corpus": (["sweep", "language", "--set", "main_data=reuters"], "reuters is not on the hub"),
    "window": (
        ["sweep", "language", "--set", "length=9999999"],
        "text of python-sources must be longer than one window of 9999999 by",
    ),
    "buckets": (["sweep", "translation", "--set", "buckets=9"], "buckets must be a whole number from 1 to 8"),
    "vocabulary": (["sweep", "translation", "--set", "vocabulary=10"], "from 259 to 65535; got '10'"),
    "bleu": (["sweep", "translation", "--set", "bleu=words"], "bleu must be a tokenizer of sacrebleu"),
    "pairs": (
        ["sweep", "translation", "--set", "length=2"],
        "text of number-cardinals needs 16 pairs in one bucket",
    ),
    "no store": (["report", "lipschitz"], "there is no store in runs"),
    "no time limit": ([*ONE_RUN, "--time-limit", "0"], "time limit of a run must be a number of seconds above 0"),
    "negative time": ([*ONE_RUN, "--checkpoint-every", "-5"], "such as 30m; got -5"),
    "no time": ([*ONE_RUN, "--checkpoint-every", "nan"], "such as 30m; got nan"),
    "workers": ([*ONE_RUN, "--workers", "-1"], "the number of workers must be a whole number from 0; got -1"),
    "no cores": (["sweep", "lipschitz", "--cores-per-run", "0"], "cores per run must be a whole number from 1; got 0"),
    "cores": (["sweep", "lipschitz", "--cores-per-run", "9999"], "cores that this process may use; got 9999"),
}


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_sentence_with_exit_code_2_and_creates_nothing(
    capsys, tmp_path, monkeypatch, arguments, sentence
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRADSURGERY_DATA", raising=False)
    # some mistakes are found when the problem is built: here rather than in a worker, which takes longer to start
    here = ["--workers", "0"] if arguments[0] == "sweep" and "--cores-per-run" not in arguments else []
    code, out, err = call(capsys, *arguments, *here)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_one_sentence(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = call(capsys, "sweep", "lipschitz", *SMALL, "--folder", str(tmp_path / "file" / "runs"))
    assert code == 1
    assert len(err.splitlines()) == 1


def test_a_terminal_that_has_no_lambda_shows_a_question_mark():
    command = [sys.executable, "-m", "gradsurgery.lab.cli", "list", "lipschitz"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "lipschitz" in printed
    assert "?" in printed
