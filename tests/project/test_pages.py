"""The snippets of pages that readers paste one at a time run alone, and links lead somewhere."""

import re

import pytest
from numpy.testing import assert_allclose

import gradsurgery as gs
from gradsurgery.lab.store import Store
from tests.project.snippets import ROOT, snippets


@pytest.mark.parametrize("snippet", snippets("README.md"), ids=["torch", "jax"])
def test_each_training_loop_of_the_readme_trains_when_pasted_alone(snippet):
    names = {}
    exec(compile(snippet, "README.md", "exec"), names)
    main_loss = names["main_loss"]
    trained = main_loss(names["params"]) if callable(main_loss) else main_loss
    assert trained.item() < 0.1


def links(page):
    return set(re.findall(r"\]\(([^)#]+)", (ROOT / page).read_text()))


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_local_links_lead_to_files_that_exist(page):
    assert {link for link in links(page) if not link.startswith("https:") and not (ROOT / link).exists()} == set()


def test_every_page_of_a_method_is_in_the_readme():
    assert {f"docs/methods/{name}.md" for name in gs.METHODS} <= links("README.md")


def test_every_example_is_in_the_readme():
    examples = {path.relative_to(ROOT).as_posix() for path in (ROOT / "examples").glob("*/*.py")}
    assert examples - links("README.md") == set()


def test_every_example_of_the_lab_is_on_its_page():
    scripts = {f"../{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "examples/lab").glob("*.py")}
    assert scripts
    assert scripts <= links("docs/lab.md")


@pytest.mark.slow
@pytest.mark.parametrize("snippet", snippets("docs/lab.md"), ids=range(len(snippets("docs/lab.md"))))
def test_each_snippet_about_the_lab_sweeps_or_logs(snippet, tmp_path, monkeypatch, one_worker):
    monkeypatch.chdir(tmp_path)
    exec(compile(snippet, "docs/lab.md", "exec"), {"__name__": "__main__"})
    with Store("runs") as store:
        records = store.select(status=None)
    assert {record.status for record in records} == {"done"}
    assert any(record.spec.lam in (0, (0, 0)) for record in records)


@pytest.mark.slow
def test_the_first_example_of_the_lab_prints_what_its_page_shows(tmp_path, monkeypatch, capsys, one_worker):
    monkeypatch.chdir(tmp_path)
    exec(compile(snippets("docs/lab.md")[0], "docs/lab.md", "exec"), {"__name__": "__main__"})
    shown = re.search(r"It prints\n\n```text\n(.*?)^```", (ROOT / "docs/lab.md").read_text(), re.DOTALL | re.MULTILINE)
    assert capsys.readouterr().out.endswith(shown[1])


def test_following_contributing_adds_a_method_and_its_test(monkeypatch):
    method, test = snippets("CONTRIBUTING.md")
    names = {"__name__": "gradsurgery.methods.halved"}
    exec(method, names)
    monkeypatch.setattr(gs, "halved", names["halved"], raising=False)
    exec(test, names)
    names["test_by_hand"]()
    assert repr(gs.halved()) == "halved()"
    assert_allclose(gs.Reference(gs.halved())([1.0], [0.0]), [1.0])
