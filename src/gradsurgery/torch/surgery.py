"""``Surgery``: gathers the gradient of each loss apart, then leaves one direction in ``.grad``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from gradsurgery.method import Method
from gradsurgery.plan import asked, basis, plan
from gradsurgery.scalar import Scalar
from gradsurgery.torch.blocks import Block
from gradsurgery.torch.compiled import Kernels
from gradsurgery.torch.gathering import Gathering
from gradsurgery.torch.layout import parameters
from gradsurgery.torch.losses import Loss
from gradsurgery.torch.number import Numbers, Pairs, apart, wide
from gradsurgery.torch.parallel import WAY, Shards, Wrapping, agreed, local, shards, sum_over_shards, wrapping
from gradsurgery.torch.passes import Passes, passes
from gradsurgery.torch.probes import probes
from gradsurgery.torch.state import State
from gradsurgery.vector import Pair


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
        self._wrapping: Wrapping | None = None
        self._asks: dict[int, _Ask] = {}
        dtypes = [wide(parameter.dtype) for parameter in self._parameters]
        widest = torch.float64 if torch.float64 in dtypes else torch.float32
        self._numbers = Numbers(self._parameters[0].device, widest)
        self._state = State(method, self._parameters, self._numbers)
        self._diagnostics: Mapping[str, Scalar] = {}

    def backward(self, main: Loss, *aux: Loss) -> tuple[Tensor, ...]:
        """Gather the gradient of each loss; called again before ``apply``, add to it (divide each loss accordingly).

        Losses that come from one forward pass are given as tensors. Given as functions, they are called in turn,
        forward, backward, forward, backward, main first: one graph is alive at a time, and DistributedDataParallel
        synchronises each. Only the parameters of this surgery get gradients (under DDP, FSDP2 and reentrant
        checkpointing, all that a loss reaches).

        Returns:
            The losses, main first, detached: for the log.
        """
        self.method.check_aux_count(len(aux))
        if self._wrapping is None:
            self._wrapping = wrapping(self._parameters)
        names = basis(self.method, len(aux))[: 1 + len(aux)]
        return self._gathering.add(names, (main, *aux), self._wrapping)

    @torch.no_grad()
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
        if aux_count not in self._asks:
            self._asks[aux_count] = self._ask(aux_count)
        ask = self._asks[aux_count]
        scale = 1.0 if scaler is None else self._numbers.scalar(scaler.scale(self._numbers.tensor(1.0)))
        unit = dict.fromkeys(ask.names, 1.0) | dict.fromkeys(ask.gradients, scale)
        blocks, directions = self._blocks()
        over = self._passes(blocks, ask.places)
        scaled = self._products(over, ask.pairs)
        alike = self._alike(ask, scaled, blocks)
        with np.errstate(all="ignore"):  # an unsound step ends in NaN, not in a warning
            products = {(a, b): product / unit[a] / unit[b] for (a, b), product in scaled.items()}
            step = plan(
                self.method,
                aux_count,
                dot=lambda a, b: products[a, b],
                steps=self._state.steps,
                mass=self._state.mass,
                memory=self._state.memory,
                measure=self._measure,
            )
            weights = [step.weights.get(name, 0.0) * (scale / unit[name]) for name in ask.names]

        sound = step.sound & alike
        told = self._numbers.row([*weights, 0.0 if step.rho is None else step.rho * sound])
        told = told if alike is True else torch.where(alike, told, torch.nan)
        for some, _ in over:
            some.finish(told[:-1], told[-1], None if scaler is None else self._numbers.tensor(scale))
        for parameter, direction in zip(self._parameters, directions, strict=True):
            parameter.grad = direction
        self._gathering.clear()
        self._state.move(step, sound)
        self._diagnostics = step.diagnostics

    def _ask(self, aux_count: int) -> "_Ask":
        names = basis(self.method, aux_count)
        gradients = names[: 1 + aux_count]
        replicas = self._wrapping.replicas if self._wrapping else []
        squares = [(name, name) for name in gradients] if replicas else []
        pairs = dict.fromkeys([*asked(self.method, aux_count, measure=self._measure), *squares])
        places = tuple((names.index(a), names.index(b)) for a, b in pairs)
        return _Ask(names, gradients, tuple(pairs), places, replicas)

    def _blocks(self) -> tuple[list[tuple[Block, Shards | None]], list[Tensor | None]]:
        """The vectors of each parameter that has any, and for each parameter the tensor that becomes its direction."""
        blocks: list[tuple[Block, Shards | None]] = []
        directions: list[Tensor | None] = []
        for index, parameter in enumerate(self._parameters):
            gradients = [loss[index] for loss in self._gathering.gradients]
            reached = [gradient for gradient in gradients if gradient is not None]
            directions.append(None)
            if not reached and not self._state.has_averages(index):
                continue
            like = reached[0] if reached else torch.zeros_like(parameter)
            filled = _alike_in_type([torch.zeros_like(like) if one is None else one for one in gradients])
            averages = self._state.averages(index, like=filled[-1])
            blocks.append((Block(list(map(local, filled)), list(map(local, averages))), shards(parameter)))
            directions[index] = filled[-1] if reached else None  # the passes write it there
        return blocks, directions

    def _passes(self, blocks: list[tuple[Block, Shards | None]], pairs: Pairs) -> list[tuple[Passes, Shards | None]]:
        """The passes over the blocks, apart for those that other processes hold shards of."""
        groups: dict[Shards | None, list[Block]] = {}
        for one, where in blocks:
            groups.setdefault(where, []).append(one)
        return [(one, where) for where, some in groups.items() for one in passes(some, pairs, self._kernels)]

    def _products(self, over: list[tuple[Passes, Shards | None]], pairs: tuple[Pair, ...]) -> dict[Pair, Scalar]:
        """The inner products of whole vectors, summed over parameters and over the processes that hold their shards."""
        if not pairs:
            return {}
        sums = [sum_over_shards(self._numbers.tensor(one.products()), where) for one, where in over]
        return dict(zip(pairs, self._numbers.scalars(reduce(torch.add, sums)), strict=True))

    def _alike(self, ask: "_Ask", products: Mapping[Pair, Scalar], blocks: list[tuple[Block, Shards | None]]) -> Scalar:
        """Whether all processes under DistributedDataParallel hold the same gradients; raises if it need not wait."""
        if not ask.replicas:
            return True
        seen = torch.stack([self._numbers.tensor(probes(one, index)) for index, (one, _) in enumerate(blocks)]).sum(0)
        squares = self._numbers.row([products[name, name] for name in ask.gradients])
        same = agreed(squares, seen, ask.replicas)
        # on an accelerator a look waits for it, so there we look at the first step only; NaN shows the others
        if self._state.steps == 0 or not apart(same.device):
            wrong = [name for name, one in zip(ask.gradients, same.tolist(), strict=True) if not one]
            if wrong:
                raise RuntimeError(
                    f"the gradients of {' and '.join(wrong)} differ between the processes: DistributedDataParallel has "
                    f"not synchronised them; {WAY}"
                )
        return same.all() if apart(same.device) else True

    def diagnostics(self) -> dict[str, Tensor]:
        """What the last step was like, by name; see ``gradsurgery.diagnosis`` for what each means.

        What needs inner products that the method has not asked for is there with ``Surgery(..., measure=True)``.
        """
        return {name: self._numbers.tensor(number) for name, number in self._diagnostics.items()}

    def state_dict(self) -> dict[str, Any]:
        """What a run needs to go on: averages, counts and scalars, in plain containers."""
        return self._state.saved()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; hyperparameters stay those of this surgery's method."""
        self._state.load(state)
        self._gathering.clear()


@dataclass(frozen=True)
class _Ask:
    """What a step with some number of auxiliary losses asks for: always the same."""

    names: tuple[str, ...]
    """The vectors."""
    gradients: tuple[str, ...]
    """Those of them that are gradients."""
    pairs: tuple[Pair, ...]
    """The inner products."""
    places: Pairs
    """The same, by the places of their factors among the vectors."""
    replicas: list[ProcessGroup]
    """The groups of processes that must hold the same gradients."""


def _alike_in_type(gradients: list[Tensor]) -> list[Tensor]:
    """The gradients in the widest of their types: they may differ where ``grad_dtype`` of a parameter is None."""
    if len({gradient.dtype for gradient in gradients}) == 1:
        return gradients
    widest = reduce(torch.promote_types, [gradient.dtype for gradient in gradients])
    return [gradient.to(widest) for gradient in gradients]
