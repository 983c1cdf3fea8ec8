"""``gradsurgery list PROBLEM``: settings with their meaning, data and methods."""

import os
import subprocess
import sys
from dataclasses import dataclass, fields
from io import StringIO

import pytest
from rich.console import Console

import gradsurgery as gs
from gradsurgery.lab import problem
from gradsurgery.lab.cli import main
from gradsurgery.lab.cli.field_docs import field_docs
from gradsurgery.lab.cli.listing import print_problem
from gradsurgery.lab.find import find_problem, installed_problems


def lines(listed):
    console = Console(file=StringIO(), width=400, markup=False)
    print_problem(listed, console)
    return [line.split("  ") for line in console.file.getvalue().splitlines()]


def rows(listed):
    """The rows of all tables by their first cell."""
    cells = ([cell.strip() for cell in line if cell.strip()] for line in lines(listed))
    return {line[0]: line[1:] for line in cells if line}


@pytest.mark.parametrize("name", installed_problems())
def test_every_setting_has_a_meaning(name):
    kind = type(next(iter(find_problem(name).scales.values())).settings)
    assert field_docs(kind).keys() == {field.name for field in fields(kind)}


def test_settings_have_their_defaults_at_each_scale_and_their_meaning():
    listed = rows(find_problem("weights"))
    assert listed["setting"] == ["demo / laptop / paper"]
    assert rows(find_problem("language"))["sharded"][0] == "false", "the same at all scales"
    assert listed["epochs"] == ["80 / 10 / 100", "Passes over the training images."]
    assert listed["bottleneck"][0] == "false / false / true"
    assert listed["main_data"][1].startswith("digits, photographs, or the hub id of a dataset")


@pytest.mark.parametrize("name", installed_problems())
def test_a_narrow_terminal_shows_every_word(name):
    wide, narrow = (Console(file=StringIO(), width=width, markup=False) for width in (400, 80))
    for console in (wide, narrow):
        print_problem(find_problem(name), console)
    words, narrow_words = (sorted(console.file.getvalue().split()) for console in (wide, narrow))
    assert [word for word in narrow_words if "…" in word] == [word for word in words if "…" in word]
    table = narrow.file.getvalue().partition("Settings")[2].partition("Data")[0]
    assert len(table.splitlines()) < 45


def test_the_data_of_each_scale_is_named():
    listed = rows(find_problem("language"))
    assert "demo: python-sources, built in; python-topics, built in" in listed
    assert "laptop: --data-dir/wikipedia; --data-dir/reuters" in listed
    assert "paper: allenai/c4:en of the Hugging Face hub, or --data-dir/c4; --data-dir/rcv1" in listed


def test_all_methods_are_listed_with_their_hyperparameters():
    listed = rows(find_problem("lipschitz"))
    assert listed.keys() >= gs.METHODS.keys()
    assert listed["bloop"][0] == "lam, rho=0.01"
    assert listed["barrier"][0] == "psi=squared_main"
    assert listed["gradvac"][0] == "beta=0.01"
    assert len(listed["mgda"]) == 1, "no hyperparameters"


def test_a_problem_for_one_method_lists_no_other():
    assert "mixed" not in rows(find_problem("noise"))


def test_a_problem_without_a_dataset_generates_its_data():
    assert "generated" in rows(find_problem("noise"))


def test_settings_of_a_user_problem_show_the_values_that_they_take():
    @problem(main="a", aux="b", settings={"epochs": 3, "rate": 0.1, "name": "x", "fast": True, "max_data": 9})
    def walk(run):
        yield {}

    listed = rows(walk)
    assert "loaded by the training function" in listed
    assert listed["epochs"] == ["3", "a whole number"]
    assert (listed["rate"], listed["name"], listed["fast"]) == (
        ["0.1", "a number"],
        ["x", "text"],
        ["true", "true or false"],
    )


def test_a_problem_without_settings():
    @problem(main="a", aux="b")
    def walk(run):
        yield {}

    assert ["", "none"] in lines(walk)


def test_docs_of_fields_are_inherited_and_may_be_missing():
    @dataclass
    class Base:
        first: int
        """Over two
        lines with ``code``."""
        second: int

    @dataclass
    class Derived(Base):
        third: int = 0
        """Third."""

    assert field_docs(Derived) == {"first": "Over two lines with code.", "third": "Third."}


PROBLEM = """
from gradsurgery import lab

@lab.problem(main="a", aux="b", settings={"steps": 7})
def smooth(run):
    yield {}
"""


def test_a_user_problem_is_listed_without_heavy_imports(tmp_path):
    (tmp_path / "my_problem.py").write_text(PROBLEM)
    code = "import sys; from gradsurgery.lab.cli import main; main(['list', 'my_problem.py:smooth']); "
    code += "print([name for name in ('jax', 'torch', 'sklearn', 'datasets') if name in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path, env=dict(os.environ)
    ).stdout
    assert "steps      7  a whole number" in out
    assert out.splitlines()[-1] == "[]"


def test_an_unknown_problem_is_a_sentence(capsys):
    assert main(["list", "lipshitz"]) == 2
    assert "did you mean lipschitz" in capsys.readouterr().err
