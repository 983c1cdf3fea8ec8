"""How runs are trained, whichever process trains them."""

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
    """A folder that stands in for the hub."""
    checkpoint_every: float
    """Seconds between two checkpoints of a run."""
    cores: int
    """How many cores a run has, for its record."""
    methods: Mapping[str, type[Method]]
    """The user's own methods, which each worker registers."""
    raise_errors: bool
    """Raise what a run raises; otherwise go on with the next run. The run is recorded as failed either way."""


@dataclass(frozen=True)
class RayOptions:
    """Where a sweep on Ray trains, and what each run gets there besides its cores."""

    address: str | None = None
    """Of the cluster. None for the one in ``RAY_ADDRESS``, or a local Ray for the time of the sweep."""
    gpus_per_run: int = 0
