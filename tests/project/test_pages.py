"""The snippets of the pages run as they stand."""

import re
from pathlib import Path
from textwrap import dedent

from numpy.testing import assert_allclose

import gradsurgery as gs

ROOT = Path(__file__).parents[2]


def snippets(page):
    found = re.findall(r"^ *```python\n(.*?)^ *```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    assert found
    return [compile(dedent(snippet), page, "exec") for snippet in found]


def test_the_readme_runs(capsys):
    names = {}
    for snippet in snippets("README.md"):
        exec(snippet, names)
    assert capsys.readouterr().out.splitlines()[-1] == "[1.  0.2]"
    assert names["main_loss"].item() < 0.1


def test_following_contributing_adds_a_method_and_its_test(monkeypatch):
    method, test = snippets("CONTRIBUTING.md")
    names = {"__name__": "gradsurgery.methods.halved"}
    exec(method, names)
    monkeypatch.setattr(gs, "halved", names["halved"], raising=False)
    exec(test, names)
    names["test_by_hand"]()
    assert repr(gs.halved()) == "halved()"
    assert_allclose(gs.Reference(gs.halved())([1.0], [0.0]), [1.0])
