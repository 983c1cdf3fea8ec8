"""Where the code of a problem comes from, for the records of its runs."""

import subprocess
from pathlib import Path

from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import Setting


def origin(problem: Problem) -> dict[str, Setting]:
    """The commit of the problem's file."""
    return {"commit": _commit(Path(problem.train.__code__.co_filename).parent)}


def _commit(folder: Path) -> str:
    """The commit of a folder; empty without git or outside a repository."""
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
