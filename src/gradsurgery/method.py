"""What a method is: a frozen record of its hyperparameters, with a formula over vectors known by inner products."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from gradsurgery import hyperparameter
from gradsurgery.scalar import Scalar
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class Step:
    """What a formula is given.

    The vectors are symbolic; ``Reference`` hands in 1-d arrays, which have the same operators.
    """

    main: Vector
    """The gradient of the main loss."""
    aux: tuple[Vector, ...]
    """The gradients of the auxiliary losses, most important first."""
    averages: tuple[Vector, ...]
    """The bias-corrected moving averages of the first ``method.averaged`` gradients (main, then aux), as they were
    before this step; with ``rho=None``, those gradients themselves."""
    memory: tuple[Scalar, ...]
    """The method's own scalars, one for each name in ``method.memory``."""


@dataclass(frozen=True)
class Method:
    """A way to combine the gradients of a main and some auxiliary losses; subclasses give the formula.

    ``lam`` and ``rho`` are the names of hyperparameters that may be schedules.
    """

    memory: ClassVar[tuple[str, ...]] = ()
    """The names of the scalars it carries from step to step; all start at 0."""

    @property
    def name(self) -> str:
        """The name in ``METHODS``."""
        return type(self).__name__

    @property
    def aux_count(self) -> int | None:
        """How many auxiliary losses it takes; None for any number."""
        return 1

    @property
    def averaged(self) -> int:
        """How many gradients, main first, the formula wants the average of (or themselves, with ``rho=None``)."""
        return 0

    @property
    def averages(self) -> int:
        """How many moving averages a front end keeps for it."""
        return 0 if getattr(self, "rho", None) is None else self.averaged

    def resolve(self, step: Scalar) -> Self:
        """The method with each schedule replaced by its value at this step, and checked."""
        given = {name: getattr(self, name) for name in ("lam", "rho") if hasattr(self, name)}
        now = {name: hyperparameter.resolve(value, step) for name, value in given.items()}
        changed = {name: value for name, value in now.items() if value is not given[name]}
        return replace(self, **changed) if changed else self

    def direction(self, step: Step) -> Vector:
        """The formula: the direction for the optimiser to follow."""
        raise NotImplementedError

    def remember(self, step: Step) -> tuple[Scalar, ...]:
        """What becomes of ``memory`` after this step."""
        return step.memory

    def check_aux_count(self, count: int) -> None:
        """Raise unless this method takes ``count`` auxiliary gradients."""
        if count == 0:
            raise ValueError(f"{self.name} needs the gradient of at least one auxiliary loss, but got none")
        if self.aux_count not in (None, count):
            by_lam = type(self).aux_count is not Method.aux_count
            raise ValueError(
                f"{self!r} takes {self.aux_count} auxiliary gradient{'s' * (self.aux_count != 1)}, but got {count}"
                + "; give lam one weight for each" * by_lam
            )

    def _set(self, **fields: Any) -> None:
        """Write checked fields while the frozen record is being made."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)
