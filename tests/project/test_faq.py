"""The FAQ explains messages that users can get, and no other."""

import re
from pathlib import Path

from tests.project.messages import Message, messages

PAGE = (Path(__file__).parents[2] / "docs" / "faq.md").read_text()
LINES = [
    line
    for block in re.findall(r"^```text\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for line in block.split("\n")
    if line
]


def test_every_explained_message_exists():
    assert [line for line in LINES if not any(message.matches(line) for message in messages())] == []


def test_every_message_has_words_after_it():
    for block in re.finditer(r"^```text\n.*?^```\n(.*?)(?=^```|^#|\Z)", PAGE, re.DOTALL | re.MULTILINE):
        assert len(block[1].split()) > 5, block[0]


def test_no_line_is_on_the_page_twice():
    assert sorted(set(LINES)) == sorted(LINES)


def test_a_message_matches_with_anything_in_its_gaps():
    message = Message("lam is at least \0, but got \0", "method.py:1")
    assert message.matches("lam is at least 0, but got -0.1")
    assert message.matches("lam is at least ..., but got ...")
    assert not message.matches("lam is at most 0, but got -0.1")
    assert message.text == "lam is at least ..., but got ..."
