"""Facts on pages: named tests exist, versions and times are those on record, and pictures come with their command."""

import json
import re

import numpy as np
import pytest

import gradsurgery as gs
from tests.project.snippets import ROOT


def test_guarantees_name_tests_that_exist():
    named = re.findall(r"`([\w/]+/test_\w+\.py)`", (ROOT / "docs/guarantees.md").read_text())
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "tests" / name).is_file()] == []


def test_the_citation_has_the_version_of_the_package():
    assert re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == gs.__version__


PAGES = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"`(?:python docs/|python -m |make |gradsurgery sweep )")


@pytest.mark.parametrize("page", [page for page in PAGES if "![" in (ROOT / page).read_text()])
def test_a_page_with_pictures_names_the_command_that_draws_them(page):
    assert COMMAND.search((ROOT / page).read_text())


TRAINER = json.loads((ROOT / "docs/speed/record.json").read_text())["measures"]["trainer"]


@pytest.mark.parametrize(("page", "subject"), [("speed", ""), ("transformers", "SurgeryTrainer")])
def test_pages_have_the_times_of_trainers_from_the_record(page, subject):
    text = (ROOT / f"docs/{page}.md").read_text()
    measures = [measure for measure in TRAINER if measure["name"].startswith(subject)]
    assert len(measures) >= 3
    for measure in measures:
        low, middle, high = np.percentile(measure["ratios"], (25, 50, 75))
        assert f"{middle:.2f} ({low:.2f} to {high:.2f})" in text, measure["name"]
