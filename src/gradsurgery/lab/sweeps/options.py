"""Options of a sweep: for the processes that train its runs, and for Ray."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gradsurgery.method import Method


@dataclass(frozen=True)
class TrainingOptions:
    """The options of a sweep that its workers need."""

    folder: Path
    """Checkpoints go below it."""
    data_dir: Path | None
    """A folder whose subfolders stand in for hub ids."""
    checkpoint_every: float
    """Seconds between two checkpoints of a run."""
    cores: int
    """The cores of each run, for its record."""
    methods: Mapping[str, type[Method]]
    """The user's own methods, which each worker registers."""
    raise_errors: bool
    """True to raise what a run raises, False to continue with the next run. Both record the failure."""


@dataclass(frozen=True)
class RayOptions:
    """Which Ray cluster to train on, and the GPUs of each run."""

    address: str | None = None
    """None for the cluster in ``RAY_ADDRESS``, or for a local Ray that ends with the sweep."""
    gpus_per_run: int = 0
