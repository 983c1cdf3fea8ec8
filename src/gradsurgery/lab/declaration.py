"""A problem declares what can be trained; a task, built from it, trains.

Declarations are light: ``gradsurgery list`` and errors in the arguments import no jax. A problem names the module that
has its losses, model and data, which is imported when a run is built or drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradsurgery.lab.errors import unknown
from gradsurgery.lab.lam import Lam
from gradsurgery.lab.run import Metrics, Run, RunRecord, Setting

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from matplotlib.figure import Figure

COMPARED = ("mixed", "pcgrad", "dynamic_barrier", "bloop")
"""The methods that the paper compares in its experiments."""


class Task(ABC):
    """A problem with its data loaded and its functions compiled, once for all weights and seeds."""

    @property
    def device(self) -> str:
        """The device that it trains on, for the record; empty if that is not known."""
        return ""

    @abstractmethod
    def train(self, run: Run) -> Iterator[Metrics]:
        """Train a run from its start, or from what an interrupted attempt saved in ``run.folder``.

        Yields:
            Rows to record: ``step``, and the metrics measured there. A metric that is yielded again for the same step
            is replaced.
        """


@dataclass(frozen=True)
class Scale:
    """A size of a problem: its settings, and the grid that a sweep covers by default."""

    settings: DataclassInstance
    methods: tuple[str, ...]
    lams: tuple[Lam, ...]
    rhos: tuple[float, ...] = (0.01,)
    """For methods that keep an average by default; empty to project on the current gradient."""
    seeds: tuple[int, ...] = (0,)
    alternatives: Mapping[tuple[str, str], DataclassInstance] = field(default_factory=dict)
    """(name, value) -> settings to start from if the user sets this setting to this value. For example
    ``("model", "resnet")``: another model needs another learning rate."""

    def settings_for(self, changes: Mapping[str, str]) -> DataclassInstance:
        """The settings that the user's changes apply to."""
        matching = (settings for (name, value), settings in self.alternatives.items() if changes.get(name) == value)
        return next(matching, self.settings)


@dataclass(frozen=True)
class Problem:
    """A main loss, auxiliary losses, data and their evaluation."""

    name: str
    title: str
    """One line for ``gradsurgery list``."""
    main: str
    aux: str
    scales: Mapping[str, Scale]
    """Name -> scale. The settings of all scales have the same type."""
    task: str
    """The module with ``build(settings, data_dir) -> Task`` and, if ``draws``, ``draw(records) -> figures``."""
    draws: bool = False
    """True if the problem adds figures of its own to the report."""
    methods: tuple[str, ...] | None = None
    """The methods that it can be trained with; None for all."""
    uses_rho: bool = True
    """False if no moving average is involved."""

    @property
    def losses(self) -> dict[str, str]:
        """What the losses are, for the top of a report."""
        return {"Main": self.main, "Aux": self.aux}

    def scale(self, name: str) -> Scale:
        """Return the scale of this name."""
        if name not in self.scales:
            raise unknown("scale", name, self.scales, where=f"of {self.name}")
        return self.scales[name]

    def build(self, settings: Mapping[str, Setting], data_dir: Path | None) -> Task:
        """Load the data and prepare training.

        Args:
            settings: all settings, as a run has them.
            data_dir: a folder whose subfolders stand in for hub ids.
        """
        settings_type: Any = type(next(iter(self.scales.values())).settings)
        task: Task = import_module(self.task).build(settings_type(**settings), data_dir)
        return task

    @property
    def draw(self) -> Callable[[Sequence[RunRecord]], dict[str, Figure]] | None:
        """Draws the problem's own figures, by file name; None if it has none."""
        return import_module(self.task).draw if self.draws else None
