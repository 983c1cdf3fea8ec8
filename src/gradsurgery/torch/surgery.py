"""``Surgery``: gathers the gradient of each loss apart, then leaves one direction in ``.grad``."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsurgery.method import Method
from gradsurgery.scalar import Scalar
from gradsurgery.torch.blocks import Block
from gradsurgery.torch.fingerprint import probes
from gradsurgery.torch.formula import Formula
from gradsurgery.torch.gradients import Gathering
from gradsurgery.torch.layout import parameters
from gradsurgery.torch.losses import Loss
from gradsurgery.torch.parallel import WAY, Shards, Wrapping, agreed, sum_over_shards, wrapping
from gradsurgery.torch.passes import Passes, passes
from gradsurgery.torch.passes.compiled import Kernels
from gradsurgery.torch.passes.native import compiler
from gradsurgery.torch.scalars import Numbers, apart, wide
from gradsurgery.torch.seats import Group, Seats
from gradsurgery.torch.state import State


class Surgery:
    """Trains parameters on a main and some auxiliary losses by one of the methods of ``gradsurgery``.

        surgery = Surgery(model.parameters(), gs.bloop(lam=0.1, rho=0.01))
        for batch in loader:
            surgery.backward(main_loss, aux_loss)     # in place of loss.backward(); again to accumulate
            surgery.apply()                           # .grad is now the direction
            optimizer.step()
            optimizer.zero_grad()

    It holds one gradient for each loss between ``backward`` and ``apply``, and one average for each level above the
    last, in float32 at least. Nothing in ``apply`` waits for the device. In a step with an inner product that is not
    finite the averages stay as they are and the direction is NaN, so that a ``GradScaler`` skips it.

    Args:
        params: parameters, or groups of them as for an optimiser, after the model is wrapped by DDP or FSDP2. Frozen
            ones are passed over.
        method: for example ``gradsurgery.bloop(lam=0.1)``.
        compile: whether to compile the two passes over memory: on a CPU by a C++ compiler (the one that ``CXX`` names,
            or ``c++``), in a second or two, on an accelerator by ``torch.compile``.
        measure: whether to compute all inner products, so that ``diagnostics`` is complete.
    """

    def __init__(
        self,
        params: Iterable[Any],
        method: Method,
        *,
        compile: bool = False,  # noqa: A002
        measure: bool = False,
    ) -> None:
        if not isinstance(method, Method):
            raise TypeError(f"Surgery takes a method such as gradsurgery.bloop(lam=0.1), but got {method!r}")
        self.method = method
        self._measure = measure
        self._parameters = parameters(params)
        self._gathering = Gathering(self._parameters)
        self._kernels = Kernels() if compile else None
        if compile and not all(apart(parameter.device) for parameter in self._parameters):
            compiler()  # which is needed in the first step, and missed better now
        self._wrapping: Wrapping | None = None
        self._formulas: dict[int, Formula] = {}
        dtypes = [wide(parameter.dtype) for parameter in self._parameters]
        widest = torch.float64 if torch.float64 in dtypes else torch.float32
        self._numbers = Numbers(self._parameters[0].device, widest)
        self._state = State(method, self._parameters, self._numbers)
        self._seats = Seats(self._parameters, self._state)
        self._diagnostics: Callable[[], Mapping[str, Scalar]] = dict

    def backward(self, main: Loss, *aux: Loss) -> tuple[Tensor, ...]:
        """Gather the gradient of each loss; called again before ``apply``, add to it (divide each loss accordingly).

        Losses that come from one forward pass are given as tensors. Given as functions, they are called in turn,
        forward, backward, forward, backward, main first: one graph is alive at a time, and DistributedDataParallel
        synchronises each. Only the parameters of this surgery get gradients (under DDP, FSDP2 and reentrant
        checkpointing, all that a loss reaches).

        Returns:
            The losses, main first, detached: for the log.
        """
        if self._wrapping is None:
            self._wrapping = wrapping(self._parameters)
        return self._gathering.add(self._formula(len(aux)).gradients, (main, *aux), self._wrapping)

    def apply(self, *, scaler: Any = None) -> None:
        """Replace the gathered gradients by one direction in ``.grad``, and move the averages.

        Parameters that no loss has reached keep ``grad is None``; for one that some losses reach, the gradient of the
        others counts as zero.

        Args:
            scaler: the ``GradScaler`` by which the losses were scaled: the average is kept unscaled, and ``.grad`` is
                left scaled, for ``scaler.unscale_`` and ``scaler.step``.
        """
        aux_count = len(self._gathering.gradients) - 1
        if aux_count < 0:
            raise RuntimeError("apply needs gradients: call surgery.backward(main_loss, aux_loss) first")
        formula, numbers, state = self._formula(aux_count), self._numbers, self._state
        groups, directions = self._seats.blocks(self._gathering.gradients)
        over = [(passes(some, formula.places, self._kernels), where) for (where, *_), some in groups.items()]
        products = self._products(over) if formula.pairs else []
        alike = self._alike(formula, products, groups)
        scale = None if scaler is None else numbers.scalar(scaler.scale(numbers.tensor(1.0)))
        unscale = None if scale is None else numbers.inverse(scale)
        step = formula.plan(products, state, scale)
        sound = step.sound & alike
        weights = numbers.scalars([step.weights.get(name, 0.0) for name in formula.names])
        if alike is not True:
            weights[0] = numbers.chosen(alike, weights[0], torch.nan)
        for some, _ in over:
            some.finish(weights, step.keep, step.take * sound, unscale)
        for parameter, direction in zip(self._parameters, directions, strict=True):
            parameter.grad = direction
        self._gathering.clear()
        state.move(step, sound)
        self._diagnostics = step.diagnostics

    def _formula(self, aux_count: int) -> Formula:
        """The method's formula; made once, unless users put another method in its place."""
        found = self._formulas.get(aux_count)
        if found is None or found.method is not self.method:
            self._state.check(self.method)
            replicated = self._wrapping is not None and bool(self._wrapping.replicas)
            found = Formula(self.method, aux_count, self._numbers, measure=self._measure, squares=replicated)
            self._formulas[aux_count] = found
        return found

    def _products(self, over: list[tuple[Passes, Shards | None]]) -> Sequence[Scalar]:
        """The inner products of whole vectors, summed over parameters and over the processes that hold their shards."""
        rows = [self._numbers.scalars(one.products()) for one, _ in over]
        for index, (_, where) in enumerate(over):
            if where is not None:
                rows[index] = self._numbers.scalars(sum_over_shards(self._numbers.row(rows[index]), where))
        return rows[0] if len(rows) == 1 else [reduce(add, column) for column in zip(*rows, strict=True)]

    def _alike(self, formula: Formula, products: Sequence[Scalar], groups: Mapping[Group, list[Block]]) -> Scalar:
        """Whether all processes under DistributedDataParallel hold the same gradients; raises if it need not wait."""
        if self._wrapping is None or not self._wrapping.replicas:
            return True
        blocks = enumerate(block for some in groups.values() for block in some)
        seen = torch.stack([self._numbers.tensor(probes(block, index)) for index, block in blocks]).sum(0)
        squares = [products[formula.pairs.index((name, name))] for name in formula.gradients]
        same = agreed(self._numbers.row(squares), seen, self._wrapping.replicas)
        # on an accelerator a look waits for it, so there we look at the first step only; NaN shows the others
        if self._state.steps == 0 or not apart(same.device):
            wrong = [name for name, one in zip(formula.gradients, same.tolist(), strict=True) if not one]
            if wrong:
                raise RuntimeError(
                    f"the gradients of {' and '.join(wrong)} differ between the processes: DistributedDataParallel has "
                    f"not synchronised them; {WAY}"
                )
        return same.all() if apart(same.device) else True

    def diagnostics(self) -> dict[str, Tensor]:
        """What the last step was like, by name; see ``gradsurgery.diagnostics`` for what each means.

        What needs inner products that the method has not asked for is there with ``Surgery(..., measure=True)``.
        """
        with np.errstate(all="ignore"):
            return {name: self._numbers.tensor(number) for name, number in self._diagnostics().items()}

    def state_dict(self) -> dict[str, Any]:
        """What a run needs to go on: averages, counts and scalars, in plain containers."""
        return self._state.saved()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; hyperparameters stay those of this surgery's method."""
        self._state.load(state)
        self._seats.clear()
        self._gathering.clear()
