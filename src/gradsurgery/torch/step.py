"""One step of one method: lay out the vectors, compute inner products, plan, combine, and advance the state."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gradsurgery.method import Method
from gradsurgery.plan import Plan, average_weights, plan
from gradsurgery.scalar import Scalar
from gradsurgery.torch.diagnostics import Means
from gradsurgery.torch.distributed import DDP_ADVICE, fingerprint, replicas_agree
from gradsurgery.torch.dtensor import sum_over_shards
from gradsurgery.torch.formula import Formula, look_up, read_tensors
from gradsurgery.torch.layout import Layout, StepLayout
from gradsurgery.torch.losses import Gradients
from gradsurgery.torch.passes import Passes, make_passes
from gradsurgery.torch.passes.blocks import flatten
from gradsurgery.torch.scalars import Scalars, to_compute_dtype
from gradsurgery.torch.state import State


@dataclass
class Step:
    """A step of a part that is planned but not carried out: whether it is sound depends on all parts."""

    layout: StepLayout
    passes: Sequence[Passes]
    plan: Plan
    weights: Sequence[Scalar]
    """The direction, over the vectors of the formula, scaled as the gradients are."""
    averaging: Sequence[tuple[Scalar, Scalar, Scalar]]
    """For each cohort, the weights of the old average and of the gradient in the new one, and the new mass."""
    scaled: bool
    """Whether a ``GradScaler`` has scaled the gradients."""
    sound: Scalar
    """Whether this part of the step is sound."""
    conflicts: Mapping[str, Scalar]
    """Whether each auxiliary gradient is in conflict, where its inner product is known."""


class Part:
    """The parameters that one method trains, with their inner products, averages and count of steps.

    Args:
        method: the method.
        scalars: makes the scalars.
        compile: whether to run the passes as fused kernels.
        measure: whether to compute every inner product, which makes the diagnostics complete.
        average_dtype: the type of the averages; None for float32 or wider.
    """

    def __init__(
        self,
        method: Method,
        scalars: Scalars,
        *,
        compile: bool,  # noqa: A002
        measure: bool,
        average_dtype: torch.dtype | None,
    ) -> None:
        self.method = method
        self.parameters: list[Tensor] = []
        self._names: list[str] = []
        self.positions: list[int] = []
        """The positions of the parameters among all parameters of the surgery."""
        self._scalars, self._compile, self._measure = scalars, compile, measure
        self.state = State(method, self.parameters, self._names, scalars, average_dtype)
        self.layout = Layout(self.parameters, self.positions, self.state)
        """Makes the blocks of a step from its gradients."""
        self._formula: Formula | None = None
        self.means = Means(scalars)
        """Means of the diagnostics."""
        self.diagnostics: Callable[[], Mapping[str, Scalar]] = dict
        """Diagnostics of the last step, computed lazily: most steps never read them."""

    def add(self, parameters: Sequence[Tensor], names: Sequence[str], start: int) -> None:
        """Add parameters.

        Args:
            parameters: the parameters.
            names: their names.
            start: the position of the first of them among all parameters of the surgery.
        """
        self.parameters += parameters
        self._names += names
        self.positions += range(start, start + len(parameters))
        self.layout.forget()

    def plan(
        self, layout: StepLayout, aux_count: int, scale: Scalar | None, replicas: Sequence[dist.ProcessGroup]
    ) -> Step:
        """The first pass over memory, and the step that the method plans from its inner products.

        Args:
            layout: the vectors.
            aux_count: the number of auxiliary losses.
            scale: the scale of the ``GradScaler``; None without one.
            replicas: the process groups of DistributedDataParallel.
        """
        scalars, state = self._scalars, self.state
        method = read_tensors(self.method.resolve(state.steps), scalars)
        formula = self._find_formula(method, aux_count, squares=bool(replicas))
        passes = [make_passes(blocks, formula.places, compile=self._compile) for blocks in layout.groups.values()]
        products = self._products(layout, passes, len(formula.pairs)) if formula.pairs else []
        agree = self._replicas_agree(formula, products, layout, replicas) if replicas else True
        with np.errstate(all="ignore"):  # an unsound step ends in NaN, not in a warning
            unscale = None if scale is None else 1 / scale
            values = [scalars.formula_scalar(product) for product in products]
            if unscale is not None:
                values = [
                    formula.unscale(value, pair, unscale) for value, pair in zip(values, formula.pairs, strict=True)
                ]
            masses = [scalars.formula_scalar(mass) for mass in layout.masses]
            planned = plan(
                method,
                formula.names,
                partial(look_up, method, dict(zip(formula.pairs, values, strict=True))),
                mass=masses[0] if masses else scalars.formula_scalar(0.0),
                memory=tuple(map(scalars.formula_scalar, state.memory)),
                measure=self._measure,
            )
            weights = [planned.weights.get(name, 0.0) for name in formula.names]
            if scale is not None:
                count = len(formula.gradients)
                weights = [*weights[:count], *(weight * scale for weight in weights[count:])]
            averaging = [(planned.keep, planned.take, planned.mass)]
            averaging += [average_weights(method.rho, mass) for mass in masses[1:] if method.averages]
            if unscale is not None:
                averaging = [(keep, take * unscale, mass) for keep, take, mass in averaging]
            return Step(
                layout,
                passes,
                planned,
                weights,
                averaging,
                scaled=scale is not None,
                sound=planned.sound & scalars.all_finite(weights) & agree,
                conflicts={name: values[place] < 0 for name, place in formula.conflicts.items()},
            )

    def finish(self, step: Step, sound: Scalar, directions: Gradients) -> None:
        """The second pass over memory. In an unsound step weights are NaN, and averages, masses and memory stay.

        Args:
            step: the planned step.
            sound: whether the steps of all parts are sound.
            directions: for all parameters of the surgery; those of this part are filled in.
        """
        scalars, state = self._scalars, self.state
        weights = [
            # on a device, a constant stays one: the last gradient's weight is a tensor, and NaN in an unsound step
            float(weight)
            if scalars.is_async and not isinstance(weight, Tensor)
            else scalars.pass_scalar(scalars.select(sound, weight, np.nan))
            for weight in step.weights
        ]
        averaging = [
            (
                scalars.pass_scalar(scalars.select(sound, keep, 1.0)),
                scalars.pass_scalar(scalars.select(sound, take, 0.0)),
            )
            for keep, take, _ in step.averaging
        ]
        for passes in step.passes:
            passes.combine(weights, averaging, state.steps, scaled=step.scaled)
        for position, direction in zip(self.positions, step.layout.directions, strict=True):
            directions[position] = direction
        before = step.layout.masses
        masses = [scalars.select(sound, new, old) for (_, _, new), old in zip(step.averaging, before, strict=False)]
        state.advance(
            {index: masses[cohort] for index, cohort in step.layout.cohorts.items()},
            tuple(map(partial(scalars.select, sound), step.plan.memory, state.memory)),
        )
        self.diagnostics = partial(_diagnostics, step.plan.diagnostics, sound)
        values = step.conflicts
        if self._measure:
            measured = dict(self.diagnostics())
            self.diagnostics = partial(dict, measured)
            values = {name: value for name, value in measured.items() if not name.startswith(("weight", "sound"))}
        self.means.add(values, sound)

    def check(self, aux_count: int) -> None:
        """Raise unless the method takes this number of auxiliary losses."""
        self.method.check_aux_count(aux_count)

    def _find_formula(self, resolved: Method, aux_count: int, *, squares: bool) -> Formula:
        """The formula, cached until the method or the number of losses changes."""
        formula = self._formula
        if formula is None or not formula.fits(self.method, aux_count, squares):
            formula = self._formula = Formula(self.method, resolved, aux_count, measure=self._measure, squares=squares)
        return formula

    def _products(self, layout: StepLayout, passes: Sequence[Passes], count: int) -> Sequence[Scalar]:
        """The inner products of whole vectors, summed over parameters and over shards."""
        rows = []
        for group, (shards, *_) in zip(passes, layout.groups, strict=True):
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
        layout: StepLayout,
        replicas: Sequence[dist.ProcessGroup],
    ) -> Scalar:
        """Whether all replicas under DDP hold the same gradients; raises if not, where reading that does not block."""
        scalars = self._scalars
        rows = [
            scalars.row([fingerprint(vector, block.position) for vector in to_compute_dtype(flatten(block).gradients)])
            for blocks in layout.groups.values()
            for block in blocks
        ]
        squares = scalars.row([products[formula.pairs.index((name, name))] for name in formula.gradients])
        fingerprints = torch.stack(rows).sum(0) if rows else torch.zeros_like(squares)
        agree = replicas_agree(squares, fingerprints, replicas)
        # reading blocks on an accelerator, so do it in the first step only; a later step that differs ends in NaN
        if self.state.steps == 0 or not scalars.is_async:
            wrong = [name for name, same in zip(formula.gradients, agree.tolist(), strict=True) if not same]
            if wrong:
                raise RuntimeError(
                    f"the gradients of {' and '.join(wrong)} differ between the processes: DistributedDataParallel has "
                    f"not synchronised them; {DDP_ADVICE}"
                )
        return agree.all() if scalars.is_async else True

    def load(self, saved: Mapping[str, Any]) -> None:
        """Load a state, which is checked first."""
        self.state.load(saved)
        self.layout.forget()


def _diagnostics(planned: Callable[[], dict[str, Scalar]], sound: Scalar) -> dict[str, Scalar]:
    with np.errstate(all="ignore"):
        return {**planned(), "sound": sound}
