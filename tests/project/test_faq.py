"""Every message that the FAQ explains is one that users can get."""

import re
from pathlib import Path

from tests.project.messages import GAP, matches, templates

PAGE = (Path(__file__).parents[2] / "docs" / "faq.md").read_text()
LINES = [
    line
    for block in re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for line in block.split("\n")
    if line
]


def test_every_explained_message_exists():
    assert LINES
    assert [line for line in LINES if not any(matches(template, line) for template in templates())] == []


def test_every_message_has_words_after_it():
    for block in re.finditer(r"^```text\n.*?^```\n(.*?)(?=^```|^#|\Z)", PAGE, re.DOTALL | re.MULTILINE):
        assert len(block[1].split()) > 5, block[0]


def test_no_line_is_on_the_page_twice():
    assert sorted(set(LINES)) == sorted(LINES)


def test_a_message_matches_with_anything_in_its_gaps():
    template = f"lam must be at least {GAP}; got {GAP}"
    assert matches(template, "lam must be at least 0; got -0.1")
    assert matches(template, "lam must be at least ...; got ...")
    assert not matches(template, "lam must be at most 0; got -0.1")
