"""Docstrings as Sphinx wants them: our equations and code stand in indented blocks, and |v| is a length.

Runs before napoleon, which then reads the Google-style sections.
"""

import ast
import re
from itertools import takewhile
from textwrap import dedent
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata


def mark_blocks(lines: list[str]) -> list[str]:
    """Turn each indented block after a blank line into a code block, except inside sections such as ``Args:``."""
    marked: list[str] = []
    position, in_section = 0, False
    while position < len(lines):
        line = lines[position]
        if line and not line.startswith(" "):
            in_section = bool(re.fullmatch(r"[A-Z]\w+:", line))
        starts = line.startswith(" ") and not in_section and not (marked and marked[-1])
        if starts and not line.lstrip().startswith(">>>"):
            block = list(takewhile(lambda each: not each or each.startswith(" "), lines[position:]))
            marked += [f".. code-block:: {_language(block)}", "", *block]
            position += len(block)
        else:
            marked.append(line if line.lstrip().startswith((">>>", "...")) else _escape_bars(line))
            position += 1
    return marked


def _language(block: list[str]) -> str:
    try:
        ast.parse(dedent("\n".join(block)))
    except SyntaxError:
        return "text"
    return "python"


def _escape_bars(line: str) -> str:
    """Keep |v| from being read as a substitution, outside of literals."""
    return "``".join(part if index % 2 else part.replace("|", "\\|") for index, part in enumerate(line.split("``")))


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite a docstring in place."""
    lines[:] = mark_blocks(lines)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Run before napoleon, whose priority is the default, 500."""
    app.connect("autodoc-process-docstring", process, priority=400)
    return {"parallel_read_safe": True}
