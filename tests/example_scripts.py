"""Run the scripts in examples/ unchanged, in this process: a new one would spend its time on imports."""

import re
import runpy
import tempfile
from contextlib import chdir, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
RECIPES = "\n".join(path.read_text() for path in sorted((ROOT / "docs" / "recipes").glob("*.md")))


@cache
def printed_text(name: str) -> str:
    """What a script such as "torch/plain" prints when it is run in an empty folder."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()) as output:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    text = output.getvalue()
    compare_with_page(name, text)
    return text


def compare_with_page(name: str, text: str) -> None:
    """Check that the recipe's page shows what the script prints, up to rounding that differs between CPUs."""
    if name.endswith("/plain"):  # has no recipe
        return
    section = rf"examples/{name}\.py\n:language: python\n(?:(?!literalinclude).)*?It prints\n\n```text\n(.*?)^```"
    shown = re.search(section, RECIPES, re.DOTALL | re.MULTILINE)
    assert shown, f"docs/recipes does not show what {name} prints"
    lines = shown[1].splitlines()
    last = text.splitlines()[-len(lines) :]  # a trainer prints its logs first
    for printed, expected in zip(last, lines, strict=True):
        assert numbers(printed) == pytest.approx(numbers(expected), rel=0.25), f"docs/recipes shows {expected!r}"


def numbers(text: str) -> dict[str, float]:
    """The numbers in a text, by the words before each."""
    return {words: float(number) for words, number in re.findall(r"([a-z][a-z ]*) (\d+(?:\.\d+)?)", text)}


def printed_numbers(name: str) -> dict[str, float]:
    """The numbers that a script prints, by the words before each."""
    return numbers(printed_text(name))


def printed_rows(name: str) -> dict[str, dict[str, float]]:
    """The numbers of each line that a script prints, by the words before its first comma or colon."""
    return {re.split("[,:]", line)[0]: numbers(line) for line in printed_text(name).splitlines()}


def code_lines(name: str) -> list[str]:
    """The lines of a script, without its docstring, imports and empty lines."""
    text = (EXAMPLES / f"{name}.py").read_text().split('"""', 2)[2]
    return [line for line in text.splitlines() if line and not line.startswith(("import ", "from "))]
