"""``Surgery``: gathers the gradient of each loss apart, then leaves one direction in ``.grad``."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsurgery.method import Method
from gradsurgery.plan import Plan, asked, basis, plan
from gradsurgery.torch.blocks import Block, flat
from gradsurgery.torch.gathering import Gathering
from gradsurgery.torch.kernels import Kernels
from gradsurgery.torch.layout import laid_like, parameters
from gradsurgery.torch.losses import Loss
from gradsurgery.torch.number import apart, wide
from gradsurgery.torch.parallel import WAY, Shards, Wrapping, agreed, local, shards, sum_over_shards, wrapping
from gradsurgery.torch.passes import Passes, probes
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
        compile: whether to compile the two passes over memory with ``torch.compile``.
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
        self._asked: dict[int, list[Pair]] = {}
        dtypes = [wide(parameter.dtype) for parameter in self._parameters]
        self._dtype = torch.float64 if torch.float64 in dtypes else torch.float32

        self._steps = 0
        self._averages: list[list[Tensor | None]] = [[None] * len(dtypes) for _ in range(method.averages)]
        self._mass = self._scalar(0.0)
        self._memory = tuple(self._scalar(0.0) for _ in method.memory)
        self._diagnostics: Mapping[str, Any] = {}

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
        names = basis(self.method, aux_count)
        gradients = names[: 1 + aux_count]
        scale = 1.0 if scaler is None else _number(scaler.scale(self._scalar(1.0)))
        unit = {name: scale if name in gradients else 1.0 for name in names}
        blocks, directions = self._blocks()

        groups = self._wrapping.replicas if self._wrapping else []
        squares = [(name, name) for name in gradients] if groups else []
        if aux_count not in self._asked:
            self._asked[aux_count] = asked(self.method, aux_count, measure=self._measure)
        pairs = list(dict.fromkeys([*self._asked[aux_count], *squares]))
        passes = self._passes(blocks)
        scaled = self._products(passes, names, pairs)
        alike = self._alike(gradients, [scaled[pair] for pair in squares], blocks, groups)
        with np.errstate(all="ignore"):  # an unsound step ends in NaN, not in a warning
            products = {(a, b): _number(product) / unit[a] / unit[b] for (a, b), product in scaled.items()}
            step = plan(
                self.method,
                aux_count,
                dot=lambda a, b: products[a, b],
                steps=self._steps,
                mass=_number(self._scalar(self._mass)),
                memory=tuple(_number(self._scalar(number)) for number in self._memory),
                measure=self._measure,
            )
            weights = [step.weights.get(name, 0.0) * (scale / unit[name]) for name in names]

        sound = alike & (self._scalar(step.sound) > 0)
        rho = torch.where(sound, self._scalar(0.0 if step.rho is None else step.rho), 0.0)
        told = torch.where(alike, torch.stack([self._scalar(weight) for weight in weights]), torch.nan)
        for some in passes.values():
            some.finish(told, rho, None if scaler is None else self._scalar(scale))
        for parameter, direction in zip(self._parameters, directions, strict=True):
            parameter.grad = direction
        self._gathering.clear()
        self._remember(step, sound)

    def _remember(self, step: Plan, sound: Tensor) -> None:
        """Move the scalars; the averages have moved in place."""
        self._steps += 1
        self._mass = torch.where(sound, self._scalar(step.mass), self._scalar(self._mass))
        self._memory = tuple(
            torch.where(sound, self._scalar(new), self._scalar(old))
            for new, old in zip(step.memory, self._memory, strict=True)
        )
        self._diagnostics = step.diagnostics

    def _blocks(self) -> tuple[list[tuple[Block, Shards | None]], list[Tensor | None]]:
        """The vectors of each parameter that has any, and for each parameter the tensor that becomes its direction."""
        blocks: list[tuple[Block, Shards | None]] = []
        directions: list[Tensor | None] = []
        for index, parameter in enumerate(self._parameters):
            gradients = [loss[index] for loss in self._gathering.gradients]
            reached = [gradient for gradient in gradients if gradient is not None]
            directions.append(None)
            if not reached and all(level[index] is None for level in self._averages):
                continue
            like = reached[0] if reached else torch.zeros_like(parameter)
            filled = [torch.zeros_like(like) if gradient is None else gradient for gradient in gradients]
            averages = [laid_like(filled[-1], level[index]) for level in self._averages]
            for level, average in zip(self._averages, averages, strict=True):
                level[index] = average
            blocks.append((Block(list(map(local, filled)), list(map(local, averages))), shards(parameter)))
            directions[index] = filled[-1] if reached else None  # the passes write it there
        return blocks, directions

    def _passes(self, blocks: list[tuple[Block, Shards | None]]) -> dict[Shards | None, Passes]:
        """The passes over the blocks that the same processes hold shards of."""
        groups: dict[Shards | None, list[Block]] = {}
        for one, where in blocks:
            groups.setdefault(where, []).append(one)
        return {where: Passes(some, self._kernels) for where, some in groups.items()}

    def _products(
        self, passes: Mapping[Shards | None, Passes], names: tuple[str, ...], pairs: list[Pair]
    ) -> dict[Pair, Tensor]:
        """The inner products of whole vectors, summed over parameters and over the processes that hold their shards."""
        if not pairs:
            return {}
        places = tuple((names.index(a), names.index(b)) for a, b in pairs)
        sums = []
        for where, some in passes.items():
            parts = [self._scalar(part) for part in some.products(places)]
            sums.append(sum_over_shards(torch.stack(parts).sum(0), where))
        return dict(zip(pairs, torch.stack(sums).sum(0).unbind(), strict=True))

    def _alike(
        self,
        gradients: tuple[str, ...],
        squares: list[Tensor],
        blocks: list[tuple[Block, Shards | None]],
        groups: list[Any],
    ) -> Tensor:
        """Whether all processes under DistributedDataParallel hold the same gradients; raises if it need not wait."""
        if not squares:
            return self._scalar(1.0) > 0
        seen = torch.stack([self._scalar(probes(flat(one), index)) for index, (one, _) in enumerate(blocks)]).sum(0)
        same = agreed(torch.stack(squares), seen, groups)
        # on an accelerator a look waits for it, so there we look at the first step only; NaN shows the others
        if self._steps == 0 or not apart(same.device):
            wrong = [name for name, one in zip(gradients, same.tolist(), strict=True) if not one]
            if wrong:
                raise RuntimeError(
                    f"the gradients of {' and '.join(wrong)} differ between the processes: DistributedDataParallel has "
                    f"not synchronised them; {WAY}"
                )
        return same.all()

    def _scalar(self, number: Any) -> Tensor:
        """A number as a tensor of the surgery's type, beside the first parameter, without waiting for the device."""
        device = self._parameters[0].device
        if isinstance(number, Tensor):
            return number.to(device, self._dtype)
        return torch.full((), float(number), dtype=self._dtype, device=device)

    def diagnostics(self) -> dict[str, Tensor]:
        """What the last step was like, by name; see ``gradsurgery.diagnosis`` for what each means.

        What needs inner products that the method has not asked for is there with ``Surgery(..., measure=True)``.
        """
        return {name: self._scalar(number) for name, number in self._diagnostics.items()}

    def state_dict(self) -> dict[str, Any]:
        """What a run needs to go on: averages, counts and scalars, in plain containers."""
        return {
            "method": self.method.name,
            "shapes": [list(parameter.shape) for parameter in self._parameters],
            "steps": self._steps,
            "mass": self._mass,
            "memory": list(self._memory),
            "averages": [
                [
                    # a zero for what is not there yet, as torch.distributed.checkpoint loads into what it finds
                    torch.zeros_like(parameter, dtype=wide(parameter.dtype)) if average is None else average
                    for average, parameter in zip(level, self._parameters, strict=True)
                ]
                for level in self._averages
            ],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state; hyperparameters stay those of this surgery's method."""
        self._check(state)
        self._gathering.clear()
        self._steps = int(state["steps"])
        self._mass = self._scalar(state["mass"]).clone()
        self._memory = tuple(self._scalar(number).clone() for number in state["memory"])
        self._averages = [
            [
                None if average is None else average.to(parameter.device, wide(parameter.dtype), copy=True)
                for average, parameter in zip(level, self._parameters, strict=True)
            ]
            for level in state["averages"]
        ]

    def _check(self, state: Mapping[str, Any]) -> None:
        """Raise unless the state is of this method and for these parameters."""
        mine = self.state_dict()
        if state["method"] != mine["method"]:
            raise ValueError(f"the state is of the method {state['method']}, but this surgery's is {mine['method']}")
        for what in ("averages", "memory"):
            if len(state[what]) != len(mine[what]):
                raise ValueError(
                    f"the state has {len(state[what])} {what}, but {self.method!r} keeps {len(mine[what])}"
                )
        if len(state["shapes"]) != len(mine["shapes"]):
            raise ValueError(
                f"the state is for {len(state['shapes'])} parameters, but this surgery has {len(mine['shapes'])}"
            )
        for index, (theirs, ours) in enumerate(zip(state["shapes"], mine["shapes"], strict=True)):
            if list(theirs) != ours:
                raise ValueError(f"parameter {index} has shape {tuple(theirs)} in the state, but {tuple(ours)} here")


def _number(tensor: Tensor) -> Any:
    """A 0-d tensor as formulas take it: on a CPU numpy's number, with which they are quicker, else as it is."""
    return tensor if apart(tensor.device) else tensor.numpy()[()]
