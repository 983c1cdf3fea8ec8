"""What a run is, and what is kept of it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TypeAlias

Setting: TypeAlias = int | float | str | bool
Metrics: TypeAlias = Mapping[str, float]


@dataclass(frozen=True)
class RunSpec:
    """All that a run's numbers depend on: the same asked for twice is trained once."""

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
    """Every setting of the problem, those of its scale and those that the user gave instead."""

    @property
    def key(self) -> str:
        """A short name that differs if anything in the run does."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Sample:
    """What a trained model makes of something held out, for people to read."""

    source: str
    reference: str
    output: str


@dataclass(frozen=True)
class RunRecord:
    """A run as the store has it."""

    spec: RunSpec
    status: str
    """``running`` (also if whoever ran it is gone), ``done`` or ``failed``."""
    info: Mapping[str, Setting]
    """Versions, commit, times: what the numbers should not depend on; and samples, as JSON."""
    metrics: tuple[Metrics, ...]
    """A row for each recorded step, by step: ``step``, and main and aux on train and test data as ``main_train``,
    ``aux_train``, ``main_test``, ``aux_test``; what else a problem measures; diagnostics as ``surgery/...``."""

    @property
    def samples(self) -> list[Sample]:
        """What the model made of examples at the end of the run, if its problem has any."""
        return [Sample(**sample) for sample in json.loads(str(self.info.get("samples", "[]")))]

    @property
    def final(self) -> Metrics:
        """The last row."""
        return self.metrics[-1]
