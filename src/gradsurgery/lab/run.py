"""A run: its specification, what a training function sees of it, and the record that the store keeps."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from gradsurgery.lab.lam import Lam, Tau, lam_name, write_lam
from gradsurgery.method import Method
from gradsurgery.relative import relative

Setting: TypeAlias = int | float | str | bool
Metrics: TypeAlias = Mapping[str, float]


def check_setting(name: str, value: object) -> None:
    """Raise ``TypeError`` unless the store can hold this value of a setting."""
    if not isinstance(value, Setting):
        raise TypeError(f"the setting {name} must be a number, text, True or False; got {value!r}")


@dataclass(frozen=True)
class RunSpec:
    """Identifies a run. Two equal specs are the same run, which is trained once."""

    problem: str
    scale: str
    method: str
    """The name of a method in ``gradsurgery.METHODS``, or of yours."""
    lam: Lam | None
    """A number or ``gs.relative`` of one, a tuple of these for several auxiliary losses, a ``Tau`` for a method that
    takes τ; None for a method without a weight."""
    rho: float | None
    """None for a method without an average."""
    seed: int
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """All settings of the problem: those of its scale, with the user's changes."""

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int):
            raise TypeError(f"the seed of a run must be an int; got {self.seed!r}")
        for name, value in self.settings.items():
            check_setting(name, value)

    @property
    def lam_name(self) -> str:
        """``λ``, ``relative λ`` for one in units of |g_main| / |g_aux|, or ``τ``; ``λ₁`` if there are several."""
        return lam_name(self.lam)

    @property
    def key(self) -> str:
        """A short identifier, a hash of all fields."""
        fields = {**vars(self), "settings": dict(self.settings)}
        if isinstance(self.lam, relative):
            fields |= {"lam": self.lam.ratio, "relative": True}
        elif isinstance(self.lam, Tau | tuple):
            fields |= {"lam": write_lam(self.lam)}
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass
class Run:
    """A run in training, as a training function sees it."""

    spec: RunSpec
    method: Method
    """The method to train with, for example ``bloop(lam=0.1, rho=0.01)``."""
    settings: Any
    """All settings of the problem: a mapping by name, or an instance of the problem's dataclass."""
    folder: Path
    """Kept until the run is done, across restarts: save here what a restart needs, and look for it at the start."""
    data_dir: Path | None = None
    """A folder with datasets, from ``--data-dir``."""
    checkpoint_every: float = 60.0
    """Seconds between two checkpoints, from ``--checkpoint-every``."""
    flush: Callable[[], None] = lambda: None
    """Wait until all rows so far are on the disk. Call it before saving a checkpoint: after a power cut, a checkpoint
    must not be ahead of its rows."""
    progress: float = 0.0
    """The fraction of the run that is trained, for the progress bar; set it if you know it."""
    device: str = ""
    """The device that trains the run, for its record; set it if you know it."""
    samples: "tuple[Sample, ...]" = ()
    """Outputs of the trained model for the report; set it before the end."""

    @property
    def lam(self) -> Lam | None:
        """The weight of the auxiliary loss: a number, ``gs.relative`` of one, or τ; None for a method without one.

        A tuple with one weight for each of several auxiliary losses.
        """
        return self.spec.lam

    @property
    def rho(self) -> float | None:
        """The speed of the moving average; None for a method without one."""
        return self.spec.rho

    @property
    def seed(self) -> int:
        """The seed for initialisation and data order."""
        return self.spec.seed


@dataclass(frozen=True)
class Sample:
    """An output of a trained model on a held-out example."""

    source: str
    reference: str
    output: str


def parse_samples(text: str) -> list[Sample]:
    """Read samples from JSON; raise ``ValueError`` unless it is a list of samples."""
    samples = json.loads(text)
    names = {field.name for field in fields(Sample)}
    if not isinstance(samples, list) or not all(
        isinstance(sample, dict) and sample.keys() == names and all(isinstance(value, str) for value in sample.values())
        for sample in samples
    ):
        raise ValueError(
            f"samples must be a list of objects with the strings {', '.join(sorted(names))}; got {text:.60}"
        )
    return [Sample(**sample) for sample in samples]


STATUSES = ("running", "done", "failed", "stopped")


@dataclass(frozen=True)
class RunRecord:
    """A run in the store."""

    spec: RunSpec
    status: str
    """``running`` (also if the sweep was killed), ``done``, ``failed``, or ``stopped`` because main was too far above
    main alone to be recommended; ``info["reason"]`` then says why."""
    info: Mapping[str, Setting]
    """How the run was trained: versions, commit, device, cores, duration; samples as JSON; the reason for a failure."""
    metrics: tuple[Metrics, ...]
    """One row per recorded step, in order: ``step``; ``main_train``, ``aux_train``, ``main_test`` and ``aux_test``;
    other metrics of the problem; diagnostics as ``surgery/...``."""

    @property
    def samples(self) -> list[Sample]:
        """The model's outputs on a few examples at the end of the run; empty if the problem has none."""
        return parse_samples(str(self.info.get("samples", "[]")))

    @property
    def final(self) -> Metrics:
        """The last row; empty if nothing was recorded."""
        return self.metrics[-1] if self.metrics else {}
