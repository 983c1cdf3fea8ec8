"""``Part``: the parameters that one method trains, with their inner products, averages and count of steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gradsurgery.method import Method
from gradsurgery.scalar import Scalar
from gradsurgery.torch.blocks import Group, Layout
from gradsurgery.torch.ddp import DDP_ADVICE, fingerprint, replicas_agree
from gradsurgery.torch.dtensor import Shards, sum_over_shards
from gradsurgery.torch.formula import Formula, PlannedStep
from gradsurgery.torch.gradients import Gradients
from gradsurgery.torch.means import Means
from gradsurgery.torch.passes import Block, Passes, make_passes
from gradsurgery.torch.scalars import Scalars
from gradsurgery.torch.state import State


@dataclass
class PartStep:
    """A step of a part that is planned but not finished."""

    plan: PlannedStep
    passes: Sequence[tuple[Passes, Shards | None]]
    directions: Gradients
    """The tensors that the direction is written to, for each parameter of the part."""


class Part:
    """The parameters that one method trains.

    Args:
        method: the method.
        scalars: makes the scalars.
        compile: whether to run the passes in C++.
        measure: whether to compute every inner product.
    """

    def __init__(self, method: Method, scalars: Scalars, *, compile: bool, measure: bool) -> None:  # noqa: A002
        self.method = method
        self.parameters: list[Tensor] = []
        self._positions: list[int] = []
        self._scalars, self._compile, self._measure = scalars, compile, measure
        self._state = State(method, self.parameters, scalars)
        self._layout = Layout(self.parameters, self._state)
        self._formula: Formula | None = None
        self.means = Means(scalars)
        """Means of the diagnostics."""
        self.diagnostics: Callable[[], Mapping[str, Scalar]] = dict
        """Diagnostics of the last step."""

    def add(self, parameters: Sequence[Tensor], start: int) -> None:
        """Add parameters.

        Args:
            parameters: the parameters.
            start: the position of the first of them among all parameters of the surgery.
        """
        self.parameters += parameters
        self._positions += range(start, start + len(parameters))
        self._layout.forget()

    def formula(self, aux_count: int, *, replicated: bool) -> Formula:
        """The formula of the current method, cached until the method or the number of losses changes."""
        formula = self._formula
        fits = formula is not None and formula.method is self.method and formula.aux_count == aux_count
        if formula is None or not fits or formula.squares != replicated:
            self._state.check_method(self.method)
            formula = Formula(self.method, aux_count, self._scalars, measure=self._measure, squares=replicated)
            self._formula = formula
        return formula

    def plan(
        self, gathered: Sequence[Gradients], scale: Scalar | None, replicas: Sequence[dist.ProcessGroup]
    ) -> PartStep:
        """The first pass over memory, and the step that the method plans from its inner products.

        Args:
            gathered: the gradients of each loss, main first, for all parameters of the surgery.
            scale: the scale of the ``GradScaler``; None without one.
            replicas: the process groups of DistributedDataParallel.
        """
        formula = self.formula(len(gathered) - 1, replicated=bool(replicas))
        if len(self._positions) < len(gathered[0]):
            gathered = [[gradients[position] for position in self._positions] for gradients in gathered]
        groups, directions = self._layout.blocks(gathered)
        passes = [
            (make_passes(blocks, formula.places, compile=self._compile), shards)
            for (shards, *_), blocks in groups.items()
        ]
        products = self._products(passes, len(formula.pairs)) if formula.pairs else []
        agree = self._replicas_agree(formula, products, groups, replicas) if replicas else True
        return PartStep(formula.plan(products, self._state, scale=scale, replicas_agree=agree), passes, directions)

    def finish(self, step: PartStep, sound: Scalar, directions: Gradients) -> None:
        """The second pass over memory.

        Args:
            step: the planned step.
            sound: whether the steps of all parts are sound.
            directions: for all parameters of the surgery; those of this part are filled in.
        """
        update = step.plan.finish(sound)
        for passes, _ in step.passes:
            passes.combine(update.weights, [update.averaging], self._state.steps, scaled=update.scaled)
        for position, direction in zip(self._positions, step.directions, strict=True):
            directions[position] = direction
        self._state.advance(update.mass, update.memory)
        self.diagnostics = update.diagnostics
        values: Mapping[str, Scalar] = step.plan.conflicts
        if self._measure:
            measured = update.diagnostics()
            self.diagnostics = lambda: measured
            values = {name: value for name, value in measured.items() if not name.startswith(("weight", "sound"))}
        self.means.add(values, sound)

    def _products(self, passes: Sequence[tuple[Passes, Shards | None]], count: int) -> Sequence[Scalar]:
        """The inner products of whole vectors, summed over parameters and over shards."""
        rows = []
        for group, shards in passes:
            row = group.products()
            if shards is not None:
                summed = sum_over_shards(self._scalars.row(row), shards)
                row = summed.unbind() if self._scalars.is_async else summed.tolist()
            elif len(passes) > 1 and isinstance(row[0], Tensor):  # parameters may be on several devices
                row = self._scalars.row(row).unbind()
            rows.append(row)
        if not rows:  # no loss reaches this part
            return [self._scalars.formula_scalar(0.0)] * count
        return rows[0] if len(rows) == 1 else [reduce(add, column) for column in zip(*rows, strict=True)]

    def _replicas_agree(
        self,
        formula: Formula,
        products: Sequence[Scalar],
        groups: Mapping[Group, list[Block]],
        replicas: Sequence[dist.ProcessGroup],
    ) -> Scalar:
        """Whether all replicas under DDP hold the same gradients; raises if not, where reading that does not block."""
        blocks = enumerate(block for group in groups.values() for block in group)
        rows = [self._scalars.tensor(fingerprint(block, index)) for index, block in blocks]
        squares = self._scalars.row([products[formula.pairs.index((name, name))] for name in formula.gradients])
        fingerprints = torch.stack(rows).sum(0) if rows else torch.zeros_like(squares)
        agree = replicas_agree(squares, fingerprints, replicas)
        # reading blocks on an accelerator, so do it in the first step only; a later step that differs ends in NaN
        if self._state.steps == 0 or not self._scalars.is_async:
            wrong = [name for name, same in zip(formula.gradients, agree.tolist(), strict=True) if not same]
            if wrong:
                raise RuntimeError(
                    f"the gradients of {' and '.join(wrong)} differ between the processes: DistributedDataParallel has "
                    f"not synchronised them; {DDP_ADVICE}"
                )
        return agree.all() if self._scalars.is_async else True

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state."""
        return self._state.snapshot()

    def check(self, saved: Any) -> None:
        """Raise unless this state fits."""
        self._state.check(saved)

    def load(self, saved: Mapping[str, Any]) -> None:
        """Load a state, which is checked first."""
        self._state.load(saved)
        self._layout.forget()
