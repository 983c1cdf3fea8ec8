"""The command line as people use it, and what it says of their mistakes."""

from pathlib import Path

import pytest

from gradsurgery.lab.cli import main
from gradsurgery.lab.problems import PROBLEMS


def called(capsys, *arguments):
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


SMALL = ("--set", "epochs=1", "--seeds", "0,1", "--lams", "0.01,1", "--methods", "mixed,bloop")


def test_list_shows_every_problem(capsys):
    code, out, _ = called(capsys, "list")
    assert code == 0
    for name, one in PROBLEMS.items():
        assert f"{name}: {one.title}" in " ".join(out.split())


def test_help_teaches_by_example(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["sweep", "--help"])
    assert stopped.value.code == 0
    assert "gradsurgery sweep lipschitz --methods mixed,bloop --lams 0,1e-4:1:9log" in capsys.readouterr().out


def test_a_sweep_ends_with_the_table_and_the_report(capsys, tmp_path):
    code, out, _ = called(capsys, "sweep", "lipschitz", *SMALL, "--folder", str(tmp_path))
    assert code == 0
    lines = out.splitlines()
    assert sum(line.startswith("[") for line in lines) == 8
    assert "hypervolume" in out
    page = lines[-1].removeprefix("report: ")
    assert page == str(tmp_path / "report" / "lipschitz-demo" / "report.html")
    assert "<dt>Main</dt><dd>cross-entropy</dd>" in Path(page).read_text("utf-8")
    code, out, _ = called(capsys, "report", "lipschitz", "--folder", str(tmp_path))
    assert (code, out.splitlines()[-1]) == (0, f"report: {page}")
    code, out, _ = called(capsys, "export", "lipschitz", str(tmp_path / "runs.csv"), "--folder", str(tmp_path))
    assert (code, out.split()[0]) == (0, "8")
    assert '"method","lam","rho","seed"' in (tmp_path / "runs.csv").read_text()


def test_a_run_prints_its_numbers(capsys, tmp_path):
    arguments = (
        "run",
        "lipschitz",
        "--method",
        "bloop",
        "--lam",
        "0.1",
        "--set",
        "epochs=1",
        "--folder",
        str(tmp_path),
    )
    code, out, _ = called(capsys, *arguments)
    assert code == 0
    assert "main_train" in out
    assert "surgery/removed" in out


MISTAKES = {
    "problem": (["sweep", "lipshitz"], "there is no problem 'lipshitz': did you mean lipschitz?"),
    "scale": (["sweep", "lipschitz", "--scale", "tiny"], "there is no scale of lipschitz 'tiny'"),
    "method": (["sweep", "lipschitz", "--methods", "blop"], "there is no method 'blop': did you mean bloop?"),
    "lam": (["run", "lipschitz", "--method", "bloop", "--lam=-1"], "lam weighs the auxiliary gradient"),
    "rho": (["sweep", "lipschitz", "--rhos", "0"], "above 0 and at most 1, but got 0"),
    "grid": (["sweep", "lipschitz", "--lams", ","], "at least one value in lams, but the grid is empty"),
    "no grid": (["sweep", "lipschitz", "--lams", "many"], "a grid is numbers and ranges"),
    "setting": (["sweep", "lipschitz", "--set", "epochs"], "a setting is given as NAME=VALUE, but got 'epochs'"),
    "seeds": (["sweep", "lipschitz", "--seeds", "0.5"], "seeds are whole numbers from 0 to 2147483647, but got 0.5"),
    "option": (["sweep", "lipschitz", "--lambda", "1"], "unrecognized arguments"),
    "command": (["swep"], "invalid choice"),
    "several": (["run", "lipschitz", "--method", "bloop"], "this names 9 runs"),
    "several weights": (["run", "lipschitz", "--method", "bloop", "--lam", "0.1,0.5"], "this names 2 runs"),
    "endless seed": (["sweep", "lipschitz", "--seeds", "inf"], "seeds are whole numbers from 0"),
    "number": (["sweep", "language", "--set", "batch=-1"], "the setting batch is a number above 0, but got -1"),
    "no number": (
        ["sweep", "language", "--set", "learning_rate=nan"],
        "learning_rate is a number above 0, but got nan",
    ),
    "no name": (["sweep", "language", "--set", "main_data="], "the setting main_data is a name, but got nothing"),
    "heads": (["sweep", "language", "--set", "heads=3"], "width must be a multiple of heads"),
    "rows": (["sweep", "language", "--set", "steps=30"], "steps are a multiple of rows, but got 30 steps and 20 rows"),
    "corpus": (["sweep", "language", "--set", "main_data=reuters"], "reuters is not on the hub"),
    "window": (
        ["sweep", "language", "--set", "length=9999999"],
        "text of python-sources must be longer than one window of 9999999 by",
    ),
    "buckets": (["sweep", "translation", "--set", "buckets=9"], "buckets are at most 8"),
    "vocabulary": (["sweep", "translation", "--set", "vocabulary=10"], "from 259 to 65535 tokens, but got 10"),
    "bleu": (["sweep", "translation", "--set", "bleu=words"], "bleu is a tokeniser of sacrebleu"),
    "pairs": (
        ["sweep", "translation", "--set", "length=2"],
        "text of number-cardinals needs 16 pairs in one bucket",
    ),
    "nothing stored": (["report", "lipschitz"], "no run of lipschitz at scale demo is stored"),
}


@pytest.mark.parametrize(("arguments", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_sentence_and_exit_code_2(capsys, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GRADSURGERY_DATA", raising=False)
    workers = ["--workers", "1"] if arguments[0] == "sweep" else []  # in this process
    code, out, err = called(capsys, *arguments, *workers)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_a_data_folder_without_data_is_one_sentence(capsys, tmp_path):
    arguments = ("sweep", "lipschitz", "--scale", "laptop", "--data-dir", str(tmp_path), "--folder", str(tmp_path))
    code, _, err = called(capsys, *arguments)
    assert code == 2
    assert "has no subfolder mnist" in err


def test_a_folder_that_cannot_be_written_is_one_sentence(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = called(capsys, "sweep", "lipschitz", *SMALL, "--folder", str(tmp_path / "file" / "runs"))
    assert code == 1
    assert len(err.splitlines()) == 1
