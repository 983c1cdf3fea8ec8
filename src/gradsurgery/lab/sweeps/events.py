"""Events of a run in training."""

from dataclasses import dataclass
from typing import TypeAlias

from gradsurgery.lab.run import Metrics, RunSpec


@dataclass(frozen=True)
class Advanced:
    """This fraction of the run is trained; ``metrics`` is its latest row."""

    run: RunSpec
    fraction: float
    metrics: Metrics


@dataclass(frozen=True)
class Done:
    """The run is trained; ``metrics`` is its last row."""

    run: RunSpec
    metrics: Metrics


@dataclass(frozen=True)
class Failed:
    """The run raised an error."""

    run: RunSpec
    reason: str


Event: TypeAlias = Advanced | Done | Failed
