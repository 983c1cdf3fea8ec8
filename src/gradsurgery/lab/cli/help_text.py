"""Help that fits the terminal: argparse wraps the help of options, but neither examples nor paragraphs."""

import re
import shutil
from textwrap import fill

_EXAMPLE = re.compile(r"(?P<command>  \S.*?\S)\s{2,}(?P<meaning>\S.*)")


def fit(text: str) -> str:
    """Text whose lines fit the terminal. The meaning of an example goes below it where it has no room beside it."""
    width = shutil.get_terminal_size().columns
    return "\n".join(_fit_line(line, width) for line in text.split("\n"))


def _fit_line(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    if match := _EXAMPLE.fullmatch(line):
        below = fill(match["meaning"], width, initial_indent=" " * 6, subsequent_indent=" " * 6)
        return f"{match['command']}\n{below}"
    return line if line.startswith("  ") else fill(line, width)  # a command stays on one line, to be copied
