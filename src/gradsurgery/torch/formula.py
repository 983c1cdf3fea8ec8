"""Step 4, plan: the inner products that a method needs, and the weights and averages that follow from their values."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from gradsurgery.method import Method
from gradsurgery.plan import Plan, basis, plan, required_products
from gradsurgery.relative import relative
from gradsurgery.scalar import Scalar
from gradsurgery.torch.scalars import Pairs, Scalars
from gradsurgery.torch.state import State


class Update(NamedTuple):
    """What one step does. In an unsound step the weights are NaN, and averages, mass and memory stay."""

    weights: list[Scalar]
    """The direction, over ``Formula.names``, scaled as the gradients are."""
    averaging: tuple[Scalar, Scalar]
    """The weights of the old average and of the gradient in the new average; the latter is 0 in an unsound step."""
    scaled: bool
    """Whether a ``GradScaler`` has scaled the gradients."""
    mass: Scalar
    memory: tuple[Scalar, ...]
    diagnostics: Callable[[], dict[str, Scalar]]
    """Computed lazily: most steps never read them."""


class PlannedStep(NamedTuple):
    """A step whose weights are known; ``finish`` completes it once the soundness of all parts is known."""

    plan: Plan
    weights: list[Scalar]
    sound: Scalar
    """Whether this part of the step is sound. The whole step is unsound if any part is."""
    unscale: Scalar | None
    state: State
    scalars: Scalars
    conflicts: dict[str, Scalar]
    """Whether each auxiliary gradient is in conflict, where its inner product is known."""

    def finish(self, sound: Scalar) -> Update:
        """The update, once it is known whether the whole step is sound."""
        step, state, scalars = self.plan, self.state, self.scalars
        take = step.take if self.unscale is None else step.take * self.unscale
        return Update(
            weights=[
                # a constant stays one: the last gradient's weight is a tensor, and NaN in an unsound step
                float(weight)
                if scalars.is_async and not isinstance(weight, Tensor)
                else scalars.pass_scalar(scalars.select(sound, weight, np.nan))
                for weight in self.weights
            ],
            averaging=(scalars.pass_scalar(step.keep), scalars.pass_scalar(scalars.select(sound, take, 0.0))),
            scaled=self.unscale is not None,
            mass=scalars.select(sound, step.mass, state.mass),
            memory=tuple(map(partial(scalars.select, sound), step.memory, state.memory)),
            diagnostics=partial(_diagnostics, step.diagnostics, sound),
        )


class Formula:
    """The formula of a method for a number of auxiliary losses.

    Args:
        method: the method.
        aux_count: the number of auxiliary losses.
        scalars: makes the scalars to compute with.
        measure: whether to compute every inner product, which makes the diagnostics complete.
        squares: whether to compute the squared length of every gradient.
    """

    def __init__(self, method: Method, aux_count: int, scalars: Scalars, *, measure: bool, squares: bool) -> None:
        method.check_aux_count(aux_count)
        self.method, self.aux_count, self.squares = method, aux_count, squares
        self._scalars, self._measure = scalars, measure
        plain_numbers = all(isinstance(field, float | None) for field in vars(method).values())
        self._is_constant = plain_numbers and type(method).resolve is Method.resolve
        """Whether the method is the same in every step: it has no schedules and no tensors."""
        self.names = basis(method, aux_count)
        """The vectors of a step: its gradients, main first, then the averages."""
        self.gradients = self.names[: 1 + aux_count]
        """The names of the gradients."""
        square_pairs = [(name, name) for name in self.gradients] if squares else []
        self.pairs = tuple(dict.fromkeys([*required_products(method, aux_count, measure=measure), *square_pairs]))
        """The inner products, by names."""
        self.places: Pairs = tuple((self.names.index(a), self.names.index(b)) for a, b in self.pairs)
        """The inner products, by positions in ``names``."""
        against = "average" if method.averages else "main"
        self._conflicts = {
            "conflict" + name.removeprefix("aux"): self.pairs.index(pair)
            for name in self.gradients[1:]
            for pair in ((name, against), (against, name))
            if pair in self.pairs
        }

    def plan(
        self, products: Sequence[Scalar], state: State, *, scale: Scalar | None = None, replicas_agree: Scalar = True
    ) -> PlannedStep:
        """Plan one step.

        Args:
            products: the inner products, in the order of ``pairs``.
            state: the state before the step.
            scale: the scale of the ``GradScaler`` that scaled the losses.
            replicas_agree: whether all processes hold the same gradients; if not, the step is unsound.
        """
        scalars = self._scalars
        with np.errstate(all="ignore"):  # an unsound step ends in NaN, not in a warning
            values = [scalars.formula_scalar(product) for product in products]
            unscale = None if scale is None else 1 / scale
            if unscale is not None:
                values = [self._unscale(value, pair, unscale) for value, pair in zip(values, self.pairs, strict=True)]
            value_of = dict(zip(self.pairs, values, strict=True))

            def dot(a: str, b: str) -> Scalar:
                if (a, b) not in value_of:
                    raise ValueError(
                        f"{self.method!r} needs the inner product of {a} and {b}, which it did not need in its first "
                        "step: a formula cannot branch on inner products or schedules"
                    )
                return value_of[a, b]

            step = plan(
                self.method if self._is_constant else self._read_tensors(self.method.resolve(state.steps)),
                self.names,
                dot,
                mass=state.mass,
                memory=state.memory,
                measure=self._measure,
            )
            weights = [step.weights.get(name, 0.0) for name in self.names]
            if scale is not None:
                count = len(self.gradients)
                weights = [*weights[:count], *(weight * scale for weight in weights[count:])]
            sound = step.sound & scalars.all_finite(weights) & replicas_agree
            conflicts = {name: values[place] < 0 for name, place in self._conflicts.items()}
        return PlannedStep(step, weights, sound, unscale, state, scalars, conflicts)

    def _unscale(self, product: Scalar, pair: tuple[str, str], unscale: Scalar) -> Scalar:
        for name in pair:
            if name in self.gradients:
                product = product * unscale
        return product

    def _read_tensors(self, method: Method) -> Method:
        """The method with tensors replaced by their values, which may change in place before diagnostics are read."""
        values = {name: self._read(value) for name, value in vars(method).items() if _holds_tensor(value)}
        return replace(method, **values) if values else method

    def _read(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._read, value))
        if isinstance(value, relative):
            return relative(self._read(value.ratio))
        return self._scalars.snapshot(value) if isinstance(value, Tensor) else value


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, relative):
        return _holds_tensor(value.ratio)
    return isinstance(value, Tensor) or (isinstance(value, tuple) and any(map(_holds_tensor, value)))


def _diagnostics(planned: Callable[[], dict[str, Scalar]], sound: Scalar) -> dict[str, Scalar]:
    with np.errstate(all="ignore"):
        return {**planned(), "sound": sound}
