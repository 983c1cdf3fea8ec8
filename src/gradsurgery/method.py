"""A method: a frozen record of its hyperparameters, with a formula over vectors known only by their inner products."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast

from gradsurgery import hyperparameter
from gradsurgery.scalar import Scalar
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class Step:
    """The input of a formula.

    The vectors are symbolic; ``Reference`` passes 1-d arrays, which have the same operators.
    """

    main: Vector
    """The gradient of the main loss."""
    aux: tuple[Vector, ...]
    """The gradients of the auxiliary losses, most important first."""
    averages: tuple[Vector, ...]
    """The bias-corrected moving averages of the first ``method.averages`` gradients (main, then aux), before this step;
    for a method that keeps none, as with ``rho=None``, the gradients themselves."""
    memory: tuple[Scalar, ...]
    """The method's own scalars, one for each name in ``method.memory``."""


@dataclass(frozen=True)
class Method:
    """A way to combine the gradients of a main loss and of one or more auxiliary losses.

    A subclass implements the formula, ``direction``. It may have the hyperparameters ``lam``, ``rho``, ``beta``
    and ``tau``, each a number or a schedule.
    """

    memory: ClassVar[tuple[str, ...]] = ()
    """The names of the scalars that the method keeps from step to step; they start at 0."""

    rho = cast(Any, None)  # not a property, which a subclass could not replace by a field without a default
    """The share of the new gradient in the averages; None if the method keeps none."""

    @property
    def name(self) -> str:
        """The name in ``METHODS``."""
        return type(self).__name__

    @property
    def aux_count(self) -> int | None:
        """The number of auxiliary losses that the method takes; None for any number."""
        return 1

    @property
    def averages(self) -> int:
        """The number of gradients, main first, whose moving averages a front end keeps for this method."""
        return 0

    def resolve(self, step: Scalar) -> Self:
        """The method with each schedule replaced by its value at this step, which is range-checked."""
        changed = {}
        for name in ("lam", "rho", "beta", "tau"):
            field = getattr(self, name, None)
            value = hyperparameter.resolve(field, step)
            if value is not field:
                changed[name] = value
        return replace(self, **changed) if changed else self

    def resolve_lam(self, step: Step) -> Self:
        """The method with a number in place of each ``lam`` that depends on the step's gradients."""
        lam = getattr(self, "lam", None)
        if not hyperparameter.depends_on_gradients(lam):
            return self
        resolved = copy(self)  # not replace, which would check a number that may be NaN
        resolved._set(lam=hyperparameter.weigh(lam, step.main, step.aux))
        return resolved

    def direction(self, step: Step) -> Vector:
        """The formula: the direction for the optimiser to follow."""
        raise NotImplementedError

    def remember(self, step: Step) -> tuple[Scalar, ...]:
        """The new ``memory`` after this step."""
        return step.memory

    def check_aux_count(self, count: int) -> None:
        """Raise unless this method takes ``count`` auxiliary gradients."""
        if count == 0:
            raise ValueError(f"{self.name} needs the gradient of at least one auxiliary loss; got none")
        if self.aux_count not in (None, count):
            lam_sets_count = type(self).aux_count is not Method.aux_count
            raise ValueError(
                f"{self!r} takes {self.aux_count} auxiliary gradient{'s' * (self.aux_count != 1)}; got {count}"
                + "; give lam one weight for each" * lam_sets_count
            )

    def _set(self, **fields: Any) -> None:
        """Set fields in spite of ``frozen=True``; for an instance that is still being made."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)
