"""The log of a run: what its process prints, with the traceback if it fails."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from gradsurgery.lab.atomic import file_name
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.text import name_parts


def log_path(folder: Path, run: RunSpec) -> Path:
    """The log of a run, in the folder of the store."""
    name = "-".join([run.problem, *name_parts(run)])
    return folder / "logs" / file_name(f"{name:.120}-{run.key[:8]}.log")


def redirect_output(log: Path) -> None:
    """Send all that this process prints to a log from now on: of C libraries and of its children, too."""
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    with log.open("ab") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    for text in (sys.stdout, sys.stderr):
        text.reconfigure(encoding="utf-8", errors="replace", line_buffering=True)  # type: ignore[union-attr]


def write_traceback(log: Path, traceback: str) -> None:
    """Add the traceback of a run to its log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8", errors="replace") as file:
        file.write(traceback)


class Tail:
    """The lines that were added to a log."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._position = log.stat().st_size if log.exists() else 0
        self._rest = b""

    def read(self) -> Iterator[str]:
        """The complete lines since the last call; of one that a progress bar overwrites, its last state."""
        if not self._log.exists():
            return
        with self._log.open("rb") as file:
            file.seek(self._position)
            added = file.read()
        self._position += len(added)
        *lines, self._rest = (self._rest + added).split(b"\n")
        for line in lines:
            if text := line.decode(errors="replace").rstrip().rpartition("\r")[2]:
                yield text
