"""Every public name is on a page of the API."""

import re
from importlib import import_module

import pytest

from tests.project.snippets import ROOT

PAGES = {"": "core", ".torch": "torch", ".jax": "jax", ".transformers": "transformers", ".lab": "lab"}
DIRECTIVE = re.compile(r"^\.\. (?:auto\w+|py:\w+):: (\S+)$", re.MULTILINE)


@pytest.mark.parametrize(("room", "page"), PAGES.items())
def test_what_a_room_exports_is_on_its_page_and_nothing_else(room, page):
    module = f"gradsurgery{room}"
    documented = DIRECTIVE.findall((ROOT / f"docs/api/{page}.md").read_text())
    assert sorted(documented) == sorted([module, *(f"{module}.{name}" for name in import_module(module).__all__)])


def test_each_part_of_the_package_has_a_page():
    files = {path.stem for path in (ROOT / "docs/api").glob("*.md")} - {"index"}
    assert files == set(PAGES.values())
