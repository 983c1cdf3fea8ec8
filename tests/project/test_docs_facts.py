"""What pages name exists: test files, and the version and licence of the citation."""

import re

import gradsurgery as gs
from tests.project.snippets import ROOT


def test_guarantees_name_tests_that_exist():
    named = re.findall(r"`([\w/]+/test_\w+\.py)`", (ROOT / "docs/guarantees.md").read_text())
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []


def test_the_citation_has_the_version_of_the_package():
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == gs.__version__
