"""Messages about a run, from the process that trains it to the one that records it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gradsurgery.lab.run import Metrics, Setting


@dataclass(frozen=True)
class Started:
    """Training has begun, in this environment: the first row follows."""

    environment: Mapping[str, Setting]


@dataclass(frozen=True)
class Row:
    """A row to record; this fraction of the run is trained."""

    fraction: float
    metrics: Metrics


@dataclass(frozen=True)
class Flush:
    """All rows so far must be on the disk before training goes on."""


@dataclass(frozen=True)
class Ended:
    """Training has finished."""

    info: Mapping[str, Setting]


@dataclass(frozen=True)
class Raised:
    """The run raised an error."""

    reason: str
    is_mistake: bool = False
    """True for a ``UserError``, which ends the sweep with this sentence."""
    traceback: str = ""
    """For the log."""


Message: TypeAlias = Started | Row | Flush | Ended | Raised
