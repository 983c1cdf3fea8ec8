"""Running the scripts in examples/ as they stand, in this process: a new process would spend its time on imports."""

import re
import runpy
import tempfile
from contextlib import chdir, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


@cache
def printed_text(name: str) -> str:
    """What a script prints when it is run in an empty folder, for example "torch/plain"."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()) as output:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return output.getvalue()


def numbers(text: str) -> dict[str, float]:
    """The numbers in a text, by the words before each."""
    return {words: float(number) for words, number in re.findall(r"([a-z][a-z ]*) (\d+(?:\.\d+)?)", text)}


def printed(name: str) -> dict[str, float]:
    """The numbers that a script prints, by the words before each."""
    return numbers(printed_text(name))


def code(name: str) -> list[str]:
    """The lines of a script, without its docstring, imports and empty lines."""
    text = (EXAMPLES / f"{name}.py").read_text().split('"""', 2)[2]
    return [line for line in text.splitlines() if line and not line.startswith(("import ", "from "))]
