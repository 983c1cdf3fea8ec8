"""Help fits the terminal."""

import pytest

from gradsurgery.lab.cli import main
from gradsurgery.lab.cli.help_text import fit

EXAMPLE = "  gradsurgery sweep lipschitz    train a grid in about a minute"


@pytest.fixture
def columns(monkeypatch):
    return lambda number: monkeypatch.setenv("COLUMNS", str(number))


def test_a_meaning_without_room_goes_below_its_example(columns):
    columns(80)
    assert fit(EXAMPLE) == EXAMPLE
    columns(40)
    assert fit(EXAMPLE) == "  gradsurgery sweep lipschitz\n      train a grid in about a minute"


def test_paragraphs_are_wrapped_and_commands_are_not(columns):
    columns(20)
    assert fit("one two three four five six") == "one two three four\nfive six"
    assert fit("  gradsurgery sweep lipschitz --seeds 0") == "  gradsurgery sweep lipschitz --seeds 0"


@pytest.mark.parametrize("command", [[], ["list"], ["run"], ["report"], ["recommend"], ["export"]])
def test_no_help_is_wider_than_80_columns(command, columns, capsys):
    columns(80)
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []
