"""Each method has a page, with the same headings in the same order, and its picture and costs match the code."""

import re
import runpy

import pytest

import gradsurgery as gs
from tests.project.snippets import ROOT

FOLDER = ROOT / "docs/methods"
HEADINGS = ["Idea", "Equation", "Picture", "In JAX", "In PyTorch", "Cost", "Limits", "Reference"]
FIGURES = runpy.run_path(str(FOLDER / "figures.py"))
COST = runpy.run_path(str(FOLDER / "cost.py"))


def read(name):
    return (FOLDER / f"{name}.md").read_text()


@pytest.mark.parametrize("name", gs.METHODS)
def test_a_page_has_the_headings_in_order_and_nothing_empty(name):
    parts = re.split(r"^## (.*)$", read(name), flags=re.MULTILINE)
    assert parts[1::2] == HEADINGS
    assert all(body.strip() for body in parts[2::2])


@pytest.mark.parametrize("name", gs.METHODS)
def test_both_calls_use_the_method(name):
    for heading in ("In JAX", "In PyTorch"):
        assert f"gs.{name}(" in read(name).split(f"## {heading}")[1].split("\n## ")[0]


@pytest.mark.parametrize("name", gs.METHODS)
def test_costs_are_those_of_the_formula(name):
    rows = re.findall(r"^\| `(gs\..*?)` \| (.*) \|$", read(name), re.MULTILINE)
    assert rows
    for call, cells in rows:
        assert cells == " | ".join(COST["cost"](call))
        assert call.startswith(f"gs.{name}(")


@pytest.mark.parametrize("path", FIGURES["pictures"](), ids=lambda path: path.stem)
def test_a_picture_is_what_its_command_draws(path):
    assert path.read_text() == FIGURES["pictures"]()[path]


def test_every_method_is_drawn_and_listed():
    assert list(FIGURES["EXAMPLES"]) == list(gs.METHODS)
    listed = re.findall(r"^\| \[`(\w+)\(", read("index"), re.MULTILINE)
    assert listed == list(gs.METHODS)
    assert read("index").split("```{toctree}")[1].split()[1:-1] == list(gs.METHODS)
