"""What a problem is: something to train on at several scales, and how far it has come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradsurgery.lab.errors import unknown
from gradsurgery.lab.run import Metrics, RunRecord, RunSpec, Sample, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COMPARED = ("mixed", "pcgrad", "dynamic_barrier", "bloop")
"""The methods that the paper compares in its experiments."""


@dataclass(frozen=True)
class Outcome:
    """What a run ends with, besides its last row."""

    metrics: Metrics = field(default_factory=dict)
    """Joins the last row."""
    samples: tuple[Sample, ...] = ()
    """For people to read."""


class Task(ABC):
    """A problem made ready for its runs: data loaded, functions compiled once for all weights and seeds.

    A run is a state that advances by chunks, of many steps each; between chunks it can be saved and taken up again.
    """

    chunks: int
    """How many chunks make a run."""

    @abstractmethod
    def start(self, run: RunSpec) -> tuple[Any, list[Metrics]]:
        """The state before the first chunk, a pytree of arrays, and what to record of it."""

    @abstractmethod
    def advance(self, run: RunSpec, state: Any, chunk: int) -> tuple[Any, list[Metrics]]:
        """The state after this chunk, and the rows recorded along its way."""

    def final_metrics(self, state: Any) -> Outcome:
        """What is only worth its time at the end of a run."""
        return Outcome()


@dataclass(frozen=True)
class Scale:
    """A size to run a problem at: its settings, and the grid that a sweep takes if nothing else is asked for."""

    settings: Mapping[str, Setting]
    methods: tuple[str, ...]
    lams: tuple[float, ...]
    rhos: tuple[float, ...] = (0.01,)
    seeds: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Problem:
    """A main loss, auxiliary losses, data, and how to evaluate."""

    name: str
    title: str
    """What it is about, in a line."""
    main: str
    aux: str
    scales: Mapping[str, Scale]
    build: Callable[[Mapping[str, Setting], Path | None], Task]
    """Makes the task from settings and the folder that stands in for the hub."""
    draw: Callable[[Sequence[RunRecord]], dict[str, Figure]] | None = None
    """Figures of its own, by file name; None for the fronts alone."""
    may_be_zero: frozenset[str] = frozenset()
    """Those of its settings for which 0 has a meaning; all other numbers are above it."""

    def scale(self, name: str) -> Scale:
        """The scale of this name."""
        if name not in self.scales:
            raise unknown(f"scale of {self.name}", name, self.scales)
        return self.scales[name]
