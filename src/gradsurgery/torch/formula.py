"""A method at work on numbers: what it asks for in a step, and what it makes of the answers."""

from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from gradsurgery.hyperparameter import broadcast
from gradsurgery.method import Method
from gradsurgery.methods import METHODS
from gradsurgery.plan import Plan, basis, plan, required_products
from gradsurgery.scalar import Scalar
from gradsurgery.torch.scalars import Numbers, Pairs
from gradsurgery.torch.state import State
from gradsurgery.torch.tape import Tape


class Formula:
    """The formula of a method with some number of auxiliary losses.

    Args:
        method: the method.
        aux_count: how many auxiliary losses there are.
        numbers: the scalars.
        measure: whether to ask for all inner products.
        squares: whether to ask for those of each gradient with itself.
    """

    def __init__(self, method: Method, aux_count: int, numbers: Numbers, *, measure: bool, squares: bool) -> None:
        method.check_aux_count(aux_count)
        self.method, self._aux_count, self._numbers = method, aux_count, numbers
        self._measure, self._squares = measure, squares
        self.names = basis(method, aux_count)
        """The vectors."""
        self.gradients = self.names[: 1 + aux_count]
        """Those of them that are gradients."""
        own = [(name, name) for name in self.gradients] if squares else []
        self.pairs = tuple(dict.fromkeys([*required_products(method, aux_count, measure=measure), *own]))
        """The inner products."""
        self.places: Pairs = tuple((self.names.index(a), self.names.index(b)) for a, b in self.pairs)
        """The same, by the places of their factors among the vectors."""
        self._weighted: tuple[str, ...] = ()
        self._written = self._write() if _fixed(method) else None

    def plan(self, products: Sequence[Scalar], state: State, scale: Scalar | None = None) -> Plan:
        """One step.

        Args:
            products: the inner products, in the order of ``pairs``.
            state: where the method is.
            scale: what the gradients are multiplied by, if they are; the direction is then, too.
        """
        if scale is not None:
            unscale = self._numbers.inverse(scale)
            products = [
                product * (unscale if a in self.gradients else 1) * (unscale if b in self.gradients else 1)
                for product, (a, b) in zip(products, self.pairs, strict=True)
            ]
        step = self._quick(products, state.steps, state.mass, state.memory)
        if scale is None:
            return step
        scaled = {name: one if name in self.gradients else one * scale for name, one in step.weights.items()}
        return step._replace(weights=scaled)

    def _quick(self, products: Sequence[Scalar], steps: int, mass: Scalar, memory: tuple[Scalar, ...]) -> Plan:
        if self._written is None:
            return self._planned(products, steps, mass, memory)
        sound, keep, take, new, *rest = self._written(*products, mass, *memory)
        return Plan(
            weights=dict(zip(self._weighted, rest, strict=False)),
            sound=sound,
            keep=keep,
            take=take,
            mass=new,
            memory=tuple(rest[len(self._weighted) :]),
            diagnostics=partial(self._told, products, steps, mass, memory),
        )

    def _told(self, *before: Any) -> dict[str, Scalar]:
        return self._planned(*before).diagnostics()

    def _planned(self, products: Sequence[Scalar], steps: int, mass: Scalar, memory: tuple[Scalar, ...]) -> Plan:
        mass, *numbers = map(self._numbers.typed, (mass, *memory, *products))
        known = dict(zip(self.pairs, numbers[len(memory) :], strict=True))
        with np.errstate(all="ignore"):  # an unsound step ends in NaN, not in a warning
            step = plan(
                self.method,
                self._aux_count,
                dot=lambda a, b: known[a, b],
                steps=steps,
                mass=mass,
                memory=tuple(numbers[: len(memory)]),
                measure=self._measure,
            )
            return step._replace(diagnostics=step.diagnostics().copy)  # now: lam may be a tensor that will change

    def _write(self) -> Callable[..., tuple[Scalar, ...]]:
        """What a step computes from its numbers, as one function."""
        tape = Tape(self._numbers.dtype)
        known = {pair: tape.symbol("_".join(pair)) for pair in self.pairs}
        mass, *memory = map(tape.symbol, ("mass", *self.method.memory))
        step = plan(self.method, self._aux_count, dot=lambda a, b: known[a, b], mass=mass, memory=tuple(memory))
        self._weighted = tuple(step.weights)
        numbers = [step.sound, step.keep, step.take, step.mass, *step.weights.values(), *step.memory]
        return tape.function(numbers)

    def __reduce__(self) -> tuple[Any, ...]:
        """To be pickled without the function, which is written anew."""
        make = partial(Formula, measure=self._measure, squares=self._squares)
        return make, (self.method, self._aux_count, self._numbers)


def _fixed(method: Method) -> bool:
    """Whether a method is one of ours, and all numbers.

    A user's formula, function (as a schedule) or tensor may say something else in the next step, and a user's formula
    may do with numbers whatever Python can.
    """
    values = (one for field in vars(method).values() for one in broadcast(field, 1))
    return type(method) in METHODS.values() and all(one is None or isinstance(one, Real) for one in values)
