"""Events of a sweep, from the process that records runs to the progress bar."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from gradsurgery.lab.run import Metrics, RunSpec


@dataclass(frozen=True)
class Planned:
    """The sweep has this many runs more, including those that are stored already."""

    runs: int


@dataclass(frozen=True)
class Warned:
    """The user should know this; the sweep goes on."""

    sentence: str


@dataclass(frozen=True)
class Printed:
    """The run printed a line."""

    run: RunSpec
    line: str


@dataclass(frozen=True)
class Advanced:
    """This fraction of the run is trained; ``metrics`` is its latest row."""

    run: RunSpec
    fraction: float
    metrics: Metrics


@dataclass(frozen=True)
class Done:
    """The run is done; ``metrics`` is its last row."""

    run: RunSpec
    metrics: Metrics
    trained: bool = True
    """False if it was stored already, or if another sweep trained it."""


@dataclass(frozen=True)
class Failed:
    """The run raised an error, or its process was killed."""

    run: RunSpec
    reason: str
    log: Path | None = None
    """What it printed, with the traceback; None without a separate process."""


@dataclass(frozen=True)
class Stopped:
    """The run cannot be recommended, so it was not trained to its end, or not at all."""

    run: RunSpec
    reason: str


RunEvent: TypeAlias = Printed | Advanced | Done | Failed | Stopped
Event: TypeAlias = Planned | Warned | RunEvent
Listener: TypeAlias = Callable[[Event], None]
"""Receives the events of a sweep."""
