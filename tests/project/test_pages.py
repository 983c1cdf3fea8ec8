"""The snippets of the pages run as they stand, each on its own."""

import re

import pytest
from numpy.testing import assert_allclose

import gradsurgery as gs
from gradsurgery.lab.run import Run, RunSpec
from gradsurgery.lab.store import Store
from tests.project.snippets import ROOT, snippets


def spec():
    return RunSpec("walk", "default", "bloop", 1.0, None, 0, {"steps": 50})


@pytest.mark.parametrize("snippet", snippets("README.md"), ids=lambda snippet: snippet.splitlines()[0])
def test_each_snippet_of_the_readme_runs_when_pasted_alone(snippet, capsys, tmp_path):
    names = {}
    exec(compile(snippet, "README.md", "exec"), names)
    if "walk" in names:  # a problem for the lab
        assert [row["step"] for row in names["walk"](Run(spec(), gs.bloop(lam=1.0), tmp_path))] == list(range(50))
    elif "main_loss" in names:  # a training loop
        main_loss = names["main_loss"]
        trained = main_loss(names["params"]) if callable(main_loss) else main_loss
        assert trained.item() < 0.1
    else:
        assert capsys.readouterr().out == "[1.  0.2]\n"


def test_the_readme_links_to_every_example_and_to_pages_that_exist():
    links = set(re.findall(r"\]\(([^)#]+)", (ROOT / "README.md").read_text()))
    assert {link for link in links if not (ROOT / link).exists()} == set()
    examples = {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").glob("*/*.py")}
    assert examples - links == set()


@pytest.mark.slow
@pytest.mark.parametrize("snippet", snippets("docs/lab.md"), ids=range(len(snippets("docs/lab.md"))))
def test_each_snippet_about_the_lab_sweeps_or_logs(snippet, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, "docs/lab.md", "exec"), {"__name__": "__main__"})
    with Store("runs") as store:
        records = store.select(status=None)
    assert {record.status for record in records} == {"done"}
    assert any(record.spec.lam == 0 for record in records)


def test_following_contributing_adds_a_method_and_its_test(monkeypatch):
    method, test = snippets("CONTRIBUTING.md")
    names = {"__name__": "gradsurgery.methods.halved"}
    exec(method, names)
    monkeypatch.setattr(gs, "halved", names["halved"], raising=False)
    exec(test, names)
    names["test_by_hand"]()
    assert repr(gs.halved()) == "halved()"
    assert_allclose(gs.Reference(gs.halved())([1.0], [0.0]), [1.0])
