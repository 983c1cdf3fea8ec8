"""What a notebook shows: a live bar, the answer of a sweep and of a recommendation, and the report."""

import sys
from html import unescape
from pathlib import Path
from types import ModuleType

import pytest

from gradsurgery import lab
from gradsurgery.lab.notebook import Records
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.sweep import notebook_bar
from gradsurgery.lab.sweep.events import Advanced, Done, Failed, Planned
from tests.lab.analysis.synthetic_runs import ending, run

RECORDS = Records([ending("mixed", 0.0, 1.0, 10.0), ending("bloop", 0.3, 1.01, 6.0), ending("mixed", 0.1, 1.0, 9.0)])


def shown(result):
    """The page inside the frame that a notebook shows."""
    html = result._repr_html_()
    assert html.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    return unescape(html)


def test_a_sweep_shows_its_answer():
    page = shown(RECORDS)
    assert "3 runs" in page
    assert "gs.bloop(lam=0.3)" in page
    assert "mixed, λ" in page
    assert "bloop, λ" not in page, "the answer has said it"


def test_runs_without_an_answer_are_counted():
    assert "2 runs are unfinished or missing." in shown(Records([run(status="running"), run(seed=1, status="running")]))
    assert "0 runs" in shown(Records())


def test_a_recommendation_shows_the_answer_for_its_allowance():
    best = lab.recommend(RECORDS, allow=0.005)
    assert isinstance(best, list)
    page = shown(best)
    assert "gs.mixed(lam=0.1)" in page
    assert "<details" not in page, "no other allowances"


def test_a_report_is_a_path_that_shows_the_page(tmp_path, no_figures):
    page = lab.report(RECORDS, tmp_path)
    assert isinstance(page, Path)
    assert page == tmp_path / "report.html"
    assert page.read_text("utf-8") in shown(page)


@pytest.fixture
def updates(monkeypatch):
    """What the bar displays, in a notebook that draws everything."""
    drawn = []

    class Handle:
        def update(self, data, raw):
            drawn.append(data["text/html"])

    module = ModuleType("IPython.display")
    module.display = lambda data, raw, display_id: Handle()
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(notebook_bar, "_SECONDS", 0.0)
    monkeypatch.setenv("FORCE_COLOR", "1")  # as a kernel does
    return drawn


def test_a_sweep_has_one_bar_that_is_redrawn(updates, capsys):
    spec = RunSpec("walk", "default", "bloop", lam=0.1, rho=None, seed=0)
    with notebook_bar.NotebookBar() as bar:
        bar(Planned(2))
        bar(Advanced(spec, 0.5, {"step": 1, "main_train": 0.25, "aux_train": 2.0}))
        bar(Done(spec, {"step": 2}))
        bar(Failed(spec, "ValueError: no"))
    assert '<progress max="2" value="0.500">' in updates[1]
    assert "0/2 runs bloop λ=0.1 seed 0: main 0.25, aux 2" in updates[1]
    assert '<progress max="2" value="2.000">' in updates[-1]
    assert capsys.readouterr().out.splitlines() == ["[2/2] bloop λ=0.1 seed 0: failed (ValueError: no)"]
