"""The README as the package index shows it: hatch_build.py makes its links absolute."""

import re
import runpy
import sys
import tomllib
from types import ModuleType, SimpleNamespace

import pytest

from tests.project.snippets import ROOT

REPOSITORY = "https://example.org/someone/gradsurgery"


@pytest.fixture
def update(monkeypatch):
    """What the hook does; hatchling itself is installed in builds only."""
    interface = ModuleType("hatchling.metadata.plugin.interface")
    interface.MetadataHookInterface = object
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))["ReadmeHook"]

    def update(metadata):
        hook.update(SimpleNamespace(root=ROOT), metadata)
        return metadata["readme"]["text"]

    return update


def test_links_and_the_image_are_absolute(update):
    readme, page = (ROOT / "README.md").read_text(), update({"urls": {"Repository": REPOSITORY}})
    links = re.findall(r"\]\(([^)]+)\)", page)
    assert len(links) == len(re.findall(r"\]\(([^)]+)\)", readme)) > 50
    assert {link for link in links if not link.startswith("https://")} == set()
    assert f"![Pareto fronts of four methods on MNIST]({REPOSITORY}/raw/main/docs/problems/weights-fronts.png)" in page
    assert f"[guide]({REPOSITORY}/blob/main/docs/torch.md)" in page


def test_without_a_repository_the_page_is_the_readme(update):
    assert update({}) == (ROOT / "README.md").read_text()


def test_the_readme_comes_from_the_hook():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "readme" in pyproject["project"]["dynamic"]
    assert "custom" in pyproject["tool"]["hatch"]["metadata"]["hooks"]
