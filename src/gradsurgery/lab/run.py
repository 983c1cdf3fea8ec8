"""A run's specification, and the record that the store keeps of it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TypeAlias

Setting: TypeAlias = int | float | str | bool
Metrics: TypeAlias = Mapping[str, float]


@dataclass(frozen=True)
class RunSpec:
    """Identifies a run. Two equal specs are the same run, which is trained once."""

    problem: str
    scale: str
    method: str
    """A name in ``gradsurgery.METHODS``."""
    lam: float | None
    """None for a method without a weight."""
    rho: float | None
    """None for a method without an average."""
    seed: int
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """All settings of the problem: those of its scale, with the user's changes."""

    @property
    def key(self) -> str:
        """A short identifier, a hash of all fields."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Sample:
    """An output of a trained model on a held-out example."""

    source: str
    reference: str
    output: str


def parse_samples(text: str) -> list[Sample]:
    """Read samples from JSON; raise ``ValueError`` unless it is a list of samples."""
    samples = json.loads(text)
    names = {each.name for each in fields(Sample)}
    if not isinstance(samples, list) or not all(
        isinstance(sample, dict) and sample.keys() == names and all(isinstance(value, str) for value in sample.values())
        for sample in samples
    ):
        raise ValueError(f"samples are a list of objects with the texts {', '.join(sorted(names))}, but got {text:.60}")
    return [Sample(**sample) for sample in samples]


@dataclass(frozen=True)
class RunRecord:
    """A run in the store."""

    spec: RunSpec
    status: str
    """``running`` (also if its process was killed), ``done`` or ``failed``."""
    info: Mapping[str, Setting]
    """How the run was trained: versions, commit, device, cores, duration; its samples as JSON; why it failed."""
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
