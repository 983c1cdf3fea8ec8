"""What a recommendation judges runs by: the two losses, or metrics that the user names, such as accuracy or BLEU.

    @lab.problem(main="cross-entropy", aux="smoothness", maximise={"main": "accuracy_test"})

Each run records the names, so that a report on stored runs knows them.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.run import RunRecord

ROLES = ("main", "aux")
"""Main's metric is limited by the allowance, aux's is improved."""
LOSSES = {f"{role}_{split}": role for role in ROLES for split in ("train", "test")}
"""Names of the losses in a row -> what they are of. Of several auxiliary losses, the others are ``aux2_train``, …"""
_LOSS = re.compile(r"(main|aux\d*)_(train|test)")


@dataclass(frozen=True)
class Objective:
    """A metric, and which direction is better."""

    metric: str
    """Its name in a row."""
    maximise: bool = False

    @property
    def name(self) -> str:
        """``main``, ``aux`` or ``aux2`` for a loss, else the name of the metric."""
        return self.metric.rpartition("_")[0] if self.is_loss else self.metric

    @property
    def is_loss(self) -> bool:
        """True for one of the losses that every problem has, of which less is better."""
        return _LOSS.fullmatch(self.metric) is not None and not self.maximise

    @property
    def sign(self) -> int:
        """What turns the metric into a cost, of which less is better."""
        return -1 if self.maximise else 1

    @property
    def title(self) -> str:
        """The metric in words, such as ``main loss, test``."""
        return f"{self.name} loss, {self.metric.rpartition('_')[2]}" if self.is_loss else self.metric

    def __str__(self) -> str:
        return f"{'maximise' if self.maximise else 'minimise'} {self.metric}"


Objectives: TypeAlias = Mapping[str, Objective]
"""``main`` or ``aux`` -> the metric that the user names for it."""


def read_objectives(maximise: Mapping[str, str] | None, minimise: Mapping[str, str] | None) -> dict[str, Objective]:
    """The user's metrics.

    Example:
        >>> read_objectives({"main": "accuracy_test"}, None)
        {'main': Objective(metric='accuracy_test', maximise=True)}
    """
    objectives: dict[str, Objective] = {}
    for argument, metrics in (("maximise", maximise or {}), ("minimise", minimise or {})):
        if not isinstance(metrics, Mapping) or not metrics.keys() <= set(ROLES):
            example = f'{{"main": "{metrics if isinstance(metrics, str) else "accuracy_test"}"}}'
            raise TypeError(
                f'{argument} must name the metric of "main", of "aux" or of both: {example}; got {metrics!r}'
            )
        for role, metric in metrics.items():
            if role in objectives:
                raise UserError(f"{role} must have one metric, to maximise or to minimise; got two")
            objectives[role] = Objective(metric, maximise=argument == "maximise")
    return objectives


def objective_info(objectives: Objectives) -> dict[str, str]:
    """The user's metrics as a run records them: ``{"main_metric": "maximise accuracy_test"}``."""
    return {f"{role}_metric": str(objective) for role, objective in objectives.items()}


INFO = tuple(f"{role}_metric" for role in ROLES)


def judge_by(objectives: Objectives, records: Iterable[RunRecord]) -> list[RunRecord]:
    """The records with these metrics, whatever they were trained with."""
    info = objective_info(objectives)
    return [
        replace(record, info={name: value for name, value in record.info.items() if name not in INFO} | info)
        for record in records
    ]


def recorded_objectives(records: Iterable[RunRecord]) -> dict[str, Objective]:
    """The metrics that the finished runs name.

    Raises:
        ValueError: if they do not agree.
    """
    found = {tuple(record.info.get(name) for name in INFO) for record in records if record.status == "done"}
    if len(found) > 1:
        named = "; ".join(sorted(", ".join(map(str, filter(None, texts))) or "the losses" for texts in found))
        raise ValueError(f"runs must be judged by the same metrics; got {named}: name the problem as file.py:name")
    objectives = {}
    for texts in found:
        for role, text in zip(ROLES, texts, strict=True):
            if text is not None:
                direction, _, metric = str(text).partition(" ")
                objectives[role] = Objective(metric, maximise=direction == "maximise")
    return objectives
