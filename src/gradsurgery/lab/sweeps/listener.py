"""The interface through which a sweep reports its progress."""

from typing import Protocol

from gradsurgery.lab.run import Metrics, RunSpec


class Listener(Protocol):
    """Receives the progress of a sweep."""

    def sweep_started(self, runs: int) -> None:
        """The sweep has this many runs, including those that are stored already."""

    def warning(self, sentence: str) -> None:
        """The user should know this; the sweep goes on."""

    def run_advanced(self, run: RunSpec, fraction: float, metrics: Metrics) -> None:
        """This fraction of the run is trained; ``metrics`` is its latest row."""

    def run_done(self, run: RunSpec, metrics: Metrics, trained: bool) -> None:
        """The run is done; ``trained`` is False if it was stored already or another sweep trained it."""

    def run_failed(self, run: RunSpec, reason: str) -> None:
        """The run raised an error."""
