"""``Surgery``: gathers the gradient of each loss and adds one direction to ``.grad``."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor

from gradsurgery.method import Method
from gradsurgery.scalar import Scalar
from gradsurgery.torch.blocks import Block, Group, Layout
from gradsurgery.torch.ddp import DDP_ADVICE, fingerprint, replicas_agree
from gradsurgery.torch.dtensor import Shards, sum_over_shards
from gradsurgery.torch.formula import Formula
from gradsurgery.torch.gradients import Gatherer, Loss
from gradsurgery.torch.parallel import ParallelSetup, find_parallel_setup
from gradsurgery.torch.parameters import SUPPORTED, collect_parameters
from gradsurgery.torch.passes import Passes, make_passes
from gradsurgery.torch.passes.native import check_device, compiler_command
from gradsurgery.torch.scalars import Scalars
from gradsurgery.torch.state import State


class Surgery:
    """Trains parameters on a main loss and auxiliary losses by one of the methods of ``gradsurgery``.

        surgery = Surgery(model.parameters(), gs.bloop(lam=0.1, rho=0.01))
        for batch in loader:
            surgery.backward(main_loss, aux_loss)     # instead of loss.backward(); call again to accumulate
            surgery.apply()                           # adds the direction to .grad
            optimizer.step()
            optimizer.zero_grad()

    Between ``backward`` and ``apply`` it holds one gradient for each loss, and always one average, in float32 or wider,
    for each level above the last. Nothing waits for the device. In an unsound step (an inner product or a weight is not
    finite) the averages stay as they are and the direction is NaN, so that a ``GradScaler`` skips the step. After an
    exception the gathered gradients are dropped, and the next step starts afresh.

    Args:
        params: parameters or groups of them, as for an optimiser, taken after the model was wrapped by DDP or FSDP2.
            Frozen parameters are skipped, and may be unfrozen later.
        method: for example ``gradsurgery.bloop(lam=0.1)``.
        compile: whether to run the two passes over memory in C++, for parameters on the CPU. The kernel is built in the
            first step, in a second or two, by the compiler named in ``CXX`` or by ``c++``. On an accelerator this
            raises: nobody has measured there yet whether compiling gains anything over PyTorch's own operations.
        measure: whether to compute every inner product, which makes ``diagnostics`` complete.
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
        self._compile, self._measure = compile, measure
        self._parameters = collect_parameters(params)
        if compile:  # fail here rather than in the first step
            for parameter in self._trainable():
                check_device(parameter.device)
            compiler_command()
        dtypes = [parameter.dtype for parameter in self._parameters if parameter.dtype in SUPPORTED]
        self._scalars = Scalars(self._trainable()[0].device, dtypes)
        self._state = State(method, self._parameters, self._scalars)
        self._gatherer = Gatherer(self._parameters)
        self._layout = Layout(self._parameters, self._state)
        self._setup: ParallelSetup | None = None
        self._formula: Formula | None = None
        self._diagnostics: Callable[[], Mapping[str, Scalar]] = dict

    def __repr__(self) -> str:
        trainable = self._trainable()
        count, elements = len(trainable), sum(parameter.numel() for parameter in trainable)
        return f"Surgery({self.method!r}, {count} trainable parameter{'s' * (count != 1)}, {elements:,} elements)"

    def _trainable(self) -> list[Tensor]:
        return [parameter for parameter in self._parameters if parameter.requires_grad]

    def backward(self, main: Loss, *aux: Loss) -> tuple[Tensor, ...]:
        """Gather the gradient of each loss; call again before ``apply`` to accumulate (divide each loss accordingly).

        Losses from one forward pass are given as tensors. Losses given as functions are called in turn: forward,
        backward, forward, backward, main first. So only one graph is alive at a time, and DistributedDataParallel
        synchronises each gradient. Only the parameters of this surgery get gradients (under DDP, FSDP2 and reentrant
        activation checkpointing, all parameters that a loss reaches). ``.grad`` stays as it is.

        Returns:
            The detached losses, main first.
        """
        try:
            if self._setup is None:
                self._setup = find_parallel_setup(self._parameters)
            names = self._formula_for(len(aux)).gradients
            return self._gatherer.backward(names, (main, *aux), self._setup)
        except BaseException:
            self._gatherer.clear()
            raise

    def apply(self, *, scaler: Any = None) -> None:
        """Combine the gathered gradients to a direction, add it to ``.grad``, and update the averages.

        ``.grad`` is added to, as ``backward()`` does: it keeps what a plain ``loss.backward()`` has left there. A
        parameter that no loss reaches keeps its ``.grad``. If only some losses reach a parameter, the gradients of the
        others count as zero.

        Args:
            scaler: the ``GradScaler`` that scaled the losses. Averages are kept unscaled; the direction stays scaled,
                for ``scaler.unscale_`` and ``scaler.step``.
        """
        try:
            self._step(scaler)
        finally:
            self._gatherer.clear()

    def _step(self, scaler: Any) -> None:
        gradients, scalars, state = self._gatherer.gradients, self._scalars, self._state
        if not gradients:
            raise RuntimeError("apply needs gradients: call surgery.backward(main_loss, aux_loss) first")
        formula = self._formula_for(len(gradients) - 1)
        scale = None if scaler is None else scalars.as_numpy(scaler.scale(scalars.tensor(1.0)))

        groups, directions = self._layout.blocks(gradients)
        passes = [
            (make_passes(blocks, formula.places, compile=self._compile), shards)
            for (shards, *_), blocks in groups.items()
        ]
        products = self._products(passes) if formula.pairs else []
        agree = self._replicas_agree(formula, products, groups)
        update = formula.update(products, state, scale=scale, replicas_agree=agree)
        for group, _ in passes:
            group.combine(update.weights, update.keep, update.take, update.unscale)
        self._gatherer.add_to_grad(directions)
        state.advance(update.mass, update.memory)
        self._diagnostics = update.diagnostics

    def _formula_for(self, aux_count: int) -> Formula:
        """The formula of the present method; made once, unless the user changes the method or the number of losses."""
        formula = self._formula
        if formula is None or formula.method is not self.method or formula.aux_count != aux_count:
            self._state.check_method(self.method)
            replicated = self._setup is not None and bool(self._setup.replicas)
            formula = Formula(self.method, aux_count, self._scalars, measure=self._measure, squares=replicated)
            self._formula = formula
        return formula

    def _products(self, passes: list[tuple[Passes, Shards | None]]) -> Sequence[Scalar]:
        """The inner products of whole vectors, summed over parameters and over shards."""
        rows = []
        for group, shards in passes:
            row = group.products()
            if shards is not None:
                summed = sum_over_shards(self._scalars.row(row), shards)
                row = summed.unbind() if self._scalars.is_async else summed.tolist()
            rows.append(row)
        return rows[0] if len(rows) == 1 else [reduce(add, column) for column in zip(*rows, strict=True)]

    def _replicas_agree(
        self, formula: Formula, products: Sequence[Scalar], groups: Mapping[Group, list[Block]]
    ) -> Scalar:
        """Whether all replicas under DDP hold the same gradients; raises if they differ and reading it is free."""
        if self._setup is None or not self._setup.replicas:
            return True
        blocks = enumerate(block for group in groups.values() for block in group)
        fingerprints = torch.stack([self._scalars.tensor(fingerprint(block, index)) for index, block in blocks]).sum(0)
        squares = [products[formula.pairs.index((name, name))] for name in formula.gradients]
        agree = replicas_agree(self._scalars.row(squares), fingerprints, self._setup.replicas)
        # on an accelerator, reading would wait: do so in the first step only; later ones end in NaN
        if self._state.steps == 0 or not self._scalars.is_async:
            wrong = [name for name, same in zip(formula.gradients, agree.tolist(), strict=True) if not same]
            if wrong:
                raise RuntimeError(
                    f"the gradients of {' and '.join(wrong)} differ between the processes: DistributedDataParallel has "
                    f"not synchronised them; {DDP_ADVICE}"
                )
        return agree.all() if self._scalars.is_async else True

    def diagnostics(self) -> dict[str, Tensor]:
        """Diagnostics of the last step, by name; see ``gradsurgery.diagnostics`` for their meaning.

        Those that need inner products which the method does not use are there with ``Surgery(..., measure=True)``.
        """
        return {name: self._scalars.tensor(value) for name, value in self._diagnostics().items()}

    def state_dict(self) -> dict[str, Any]:
        """A snapshot of the state: averages, counts and scalars, as copies in plain containers.

        ``state["averages"][level][index]`` is the average of a parameter by its position in ``params``, for trainable
        parameters and for those that were trained before.
        """
        if self._gatherer.gradients:
            warnings.warn(
                "state_dict() does not contain the gradients that were gathered and not applied: call it after apply()",
                stacklevel=2,
            )
        return self._state.snapshot()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state, which is checked first, and drop gathered gradients; hyperparameters stay as they are."""
        self._state.load(state)
        self._layout.forget()
        self._gatherer.clear()
