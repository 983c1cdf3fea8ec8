"""The Python snippets of a page."""

import re
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^ *```(?:\{code-block\} )?python\n(?: *:[a-z-]+:[^\n]*\n)*(.*?)^ *```", re.DOTALL | re.MULTILINE)


def snippets(page):
    """The Python blocks of a page, by its path in the repository."""
    return [dedent(block) for block in BLOCK.findall((ROOT / page).read_text())]
