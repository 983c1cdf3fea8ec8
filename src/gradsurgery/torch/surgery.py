"""``Surgery``: gathers the gradient of each loss and adds one direction to ``.grad``."""

import warnings
from collections.abc import Iterable, Mapping
from functools import reduce
from operator import and_
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from gradsurgery.method import Method
from gradsurgery.torch.accelerator import AcceleratorAdapter
from gradsurgery.torch.attach import attach, unwrap_optimizer
from gradsurgery.torch.dtensor import full
from gradsurgery.torch.gradients import Gatherer, Gradients, Loss
from gradsurgery.torch.parallel import ParallelSetup, find_parallel_setup
from gradsurgery.torch.parameters import (
    SUPPORTED,
    ParameterGroup,
    check_disjoint,
    check_method,
    collect_groups,
    read_group,
)
from gradsurgery.torch.part import Part
from gradsurgery.torch.passes import check_compile
from gradsurgery.torch.scalars import Scalars


class Surgery:
    """Trains parameters on a main loss and auxiliary losses by one of the methods of ``gradsurgery``.

        surgery = Surgery(model.parameters(), gs.bloop(lam=0.1, rho=0.01))
        for batch in loader:
            surgery.backward(main_loss, aux_loss)     # instead of loss.backward(); call again to accumulate
            surgery.apply()                           # adds the direction to .grad
            optimizer.step()
            optimizer.zero_grad()

    It holds one average, in float32 or wider, for each level above the last, and between ``backward`` and ``apply`` one
    gradient for each loss. Nothing waits for the device. In an unsound step (an inner product or a weight is not
    finite) the averages stay as they are and the direction is NaN, so that a ``GradScaler`` skips the step. After an
    exception the gathered gradients are dropped, and the next step starts afresh.

    Each group of parameters may have its own method, with separate inner products and averages:

        Surgery([{"params": trunk, "method": gs.bloop(lam=0.1)}, {"params": heads}], gs.mixed(lam=1.0))

    If main and aux have separate heads, prefer surgery on the trunk alone. Only one loss reaches each head, so nothing
    conflicts there, but the direction of the auxiliary head would be lam times its gradient: under SGD, a small lam
    slows its learning (Adam undoes the factor), and it then sends worse gradients to the trunk. The plain sum with
    lam = 1 trains each head at the full learning rate.

    Args:
        params: parameters or groups of them, as for an optimiser, taken after the model was wrapped by DDP or FSDP2.
            Frozen parameters are skipped, and may be unfrozen later.
            A group is a dictionary with ``params`` and optionally ``method``. Groups without a method and single
            parameters are trained together by the method below.
        method: for example ``gradsurgery.bloop(lam=0.1)``.
        compile: whether to run the two passes over memory in C++, for parameters on the CPU. The kernel is built in the
            first step, in a second or two, by the compiler named in ``CXX`` or by ``c++``. Raises on an accelerator,
            where the gain over PyTorch's own operations has not been measured.
        measure: whether to compute every inner product, which makes ``diagnostics`` complete.
        accelerator: an ``accelerate.Accelerator``. With it, ``backward`` divides the losses by its
            ``gradient_accumulation_steps`` and scales them, as ``accelerator.backward`` does, and ``apply`` does
            nothing before the last micro-batch: call both for each one, inside ``accelerator.accumulate(model)``.
    """

    def __init__(
        self,
        params: Iterable[Any],
        method: Method,
        *,
        compile: bool = False,  # noqa: A002
        measure: bool = False,
        accelerator: Any = None,
    ) -> None:
        check_method(method)
        self._accelerator = None if accelerator is None else AcceleratorAdapter(accelerator)
        groups = collect_groups(params)
        self._compile, self._measure, self._method = compile, measure, method
        self._parameters: list[Tensor] = []
        self._parts: list[Part] = []
        self._shared: Part | None = None
        first = next(parameter for group in groups for parameter in group.parameters if parameter.requires_grad)
        self._scalars = Scalars(first.device, [])
        for group in groups:
            self._add(group)
        self._gatherer = Gatherer(self._parameters)
        self._setup: ParallelSetup | None = None
        self._attached: list[Optimizer] = []
        self._gradient_states: list[Any] = []  # of Accelerate's optimisers

    def __repr__(self) -> str:
        trainable = self._trainable()
        count, elements = len(trainable), sum(parameter.numel() for parameter in trainable)
        methods = ", ".join(repr(part.method) for part in self._parts)
        return f"Surgery({methods}, {count} trainable parameter{'s' * (count != 1)}, {elements:,} elements)"

    @property
    def method(self) -> Method:
        """The method of the groups without one. To change hyperparameters, assign a method of the same class."""
        return self._method

    @method.setter
    def method(self, method: Method) -> None:
        check_method(method)
        if self._shared is None:
            raise ValueError(
                "every group of this Surgery has a method of its own, which assigning surgery.method does not change: "
                "make lam or rho of that method a schedule or a tensor"
            )
        self._method = self._shared.method = method

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add parameters during training, for example a new head; they start without an average.

        Args:
            group: ``{"params": parameters}``, trained with the other parameters of the constructor's method, or
                ``{"params": parameters, "method": method}``.
        """
        if self._gatherer.gradients:
            raise RuntimeError("add_param_group was called between backward() and apply(): call surgery.apply() first")
        new = read_group(group)
        check_disjoint([*self._parameters, *new.parameters])
        self._add(new)
        self._setup = None  # the new parameters may belong to another DDP or FSDP2 module

    def _add(self, group: ParameterGroup) -> None:
        if self._compile:  # fail here rather than in the first step
            for parameter in group.parameters:
                if parameter.requires_grad:
                    check_compile(parameter.device)
        self._scalars.include(parameter.dtype for parameter in group.parameters if parameter.dtype in SUPPORTED)
        part = self._shared if group.method is None else None
        if part is None:
            part = Part(group.method or self._method, self._scalars, compile=self._compile, measure=self._measure)
            self._parts.append(part)
        if group.method is None:
            self._shared = part
        part.add(group.parameters, len(self._parameters))
        self._parameters += group.parameters

    def _trainable(self) -> list[Tensor]:
        return [parameter for parameter in self._parameters if parameter.requires_grad]

    def backward(self, main: Loss, *aux: Loss) -> tuple[Tensor, ...]:
        """Gather the gradient of each loss; call again before ``apply`` to accumulate (divide each loss accordingly).

        Pass losses from one forward pass as tensors. Losses passed as functions are called in turn: forward, backward,
        forward, backward, main first. So only one graph is alive at a time, and DistributedDataParallel synchronises
        each gradient. Only the parameters of this surgery get gradients (under DDP, FSDP2 and reentrant activation
        checkpointing, all parameters that a loss reaches). ``.grad`` stays as it is.

        Args:
            main: the main loss: a scalar tensor, or a function that returns one.
            *aux: the auxiliary losses, most important first.

        Returns:
            The detached losses, main first.
        """
        try:
            if self._setup is None:
                self._setup = find_parallel_setup(self._parameters)
            replicated = bool(self._setup.replicas)
            formulas = [part.formula(len(aux), replicated=replicated) for part in self._parts]
            names, losses = formulas[0].gradients, (main, *aux)
            if self._accelerator is None:
                return self._gatherer.backward(names, losses, self._setup)
            values: list[Tensor] = []
            self._gatherer.backward(names, [self._accelerator.wrap(loss, values) for loss in losses], self._setup)
            return tuple(map(full, values))
        except BaseException:
            self._gatherer.clear()
            raise

    def apply(self, *, scaler: Any = None) -> None:
        """Combine the gathered gradients into a direction, add it to ``.grad``, and update the averages.

        As with ``backward()``, ``.grad`` accumulates: what a plain ``loss.backward()`` has left there is kept. A
        parameter that no loss reaches keeps its ``.grad``. If only some losses reach a parameter, the gradients of the
        others count as zero.

        Args:
            scaler: the ``GradScaler`` that scaled the losses. Averages are kept unscaled; the direction stays scaled,
                for ``scaler.unscale_`` and ``scaler.step``. Leave it out if the surgery has an ``accelerator``.
        """
        accelerator = self._accelerator
        if accelerator is not None and scaler is None and not accelerator.sync_gradients:
            return
        try:
            if accelerator is not None:
                if scaler is not None:
                    raise ValueError("this Surgery uses the scaler of its accelerator: call apply() without scaler")
                scaler = accelerator.scaler
            elif any(not state.sync_gradients for state in self._gradient_states):
                raise RuntimeError(
                    "apply() was called inside accelerator.accumulate before the last micro-batch: make the surgery "
                    "with Surgery(..., accelerator=accelerator)"
                )
            self._step(scaler)
        finally:
            self._gatherer.clear()

    def _step(self, scaler: Any) -> None:
        gradients, scalars = self._gatherer.gradients, self._scalars
        if not gradients:
            raise RuntimeError("apply needs gradients: call surgery.backward(main_loss, aux_loss) first")
        scale = None if scaler is None else scalars.formula_scalar(scaler.scale(scalars.tensor(1.0)))
        replicas = self._setup.replicas if self._setup is not None else ()
        steps = [part.plan(gradients, scale, replicas) for part in self._parts]
        sound = reduce(and_, (step.plan.sound for step in steps))
        directions: Gradients = [None] * len(self._parameters)
        for part, step in zip(self._parts, steps, strict=True):
            part.finish(step, sound, directions)
        self._gatherer.add_to_grad(directions)

    def attach(self, *optimizers: Any) -> None:
        """Save and load the state of this surgery with the optimiser's, and guard ``optimizer.step()``.

            surgery.attach(optimizer)                          # before loading a checkpoint
            torch.save(optimizer.state_dict(), "optimizer.pt")
            optimizer.load_state_dict(torch.load("optimizer.pt", weights_only=True))

        ``optimizer.step()`` then raises if gradients were gathered and ``apply`` was forgotten. Loading a state drops
        gathered gradients; a state that was saved without ``attach`` leaves the averages as they are, with a warning.
        Averages are stored beside the optimiser's own state of each parameter, so
        ``torch.distributed.checkpoint.state_dict.get_optimizer_state_dict`` saves and reshards them too (not with
        ``flatten_optimizer_state_dict=True``, which loads only what the optimiser itself keeps: a warning says so).

        Args:
            optimizers: optimisers of ``torch.optim``, plain or wrapped by Accelerate or Lightning. If several
                train the parameters between them, pass all of them, and load the states of all. A surgery on the same
                parameters that was attached before, for example with another method, is detached.
        """
        inner = [unwrap_optimizer(optimizer) for optimizer in optimizers]
        optimized = {
            id(parameter)
            for optimizer in (*self._attached, *inner)
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        missing = [parameter for parameter in self._trainable() if id(parameter) not in optimized]
        if missing:
            raise ValueError(
                f"attach takes the optimisers of all trainable parameters, but {len(missing)} of "
                f"{len(self._trainable())} are in none of them"
            )
        self._gradient_states += [o.gradient_state for o in optimizers if hasattr(o, "gradient_state")]
        for optimizer in inner:
            attach(optimizer, self._parts, self._gatherer)
            if optimizer not in self._attached:
                self._attached.append(optimizer)

    def diagnostics(self) -> dict[str, Tensor]:
        """Diagnostics of the last step, and means over the steps since the last call; nothing waits for the device.

        =================  =========  ===============================================================================
        name               range      meaning, and what to do about it
        =================  =========  ===============================================================================
        sound              0 or 1     whether all was finite; if 0 the direction is NaN: skip ``optimizer.step()``
        conflict           0 or 1     whether aux points against main (its average, if the method keeps one)
        cos_main_aux       -1 to 1    cosine of main and aux; near 0: they are independent, and any method will do
        cos_main_average   -1 to 1    how well the average predicts main; near 0 or below: try a larger ``rho``
        cos_aux_average    -1 to 1    cosine of aux and the average: what Bloop removes
        removed            0 to 1     length of what the method takes from ``lam`` aux, relative to it (may exceed 1
                                      for methods that change main); near 0: ``gs.mixed`` would do, near 1: aux learns
                                      slowly
        weight_main, ...   any        the weights of the direction
        mean_conflict      0 to 1     share of steps in conflict; below 0.1: ``gs.mixed`` would do as well
        mean_cos_main_aux  -1 to 1    mean cosine, and likewise for the other cosines
        mean_removed       0 to 1     mean of ``removed``
        mean_sound         0 to 1     share of sound steps; below 0.99: look for overflow, or clip the gradients
        =================  =========  ===============================================================================

        A second auxiliary loss has ``conflict2``, ``cos_main_aux2`` and so on. Means are over sound steps. Values that
        need inner products which the method does not compute are included with ``Surgery(..., measure=True)``. With
        several methods, names start with ``group0/``, ``group1/``, ... except for ``sound`` and ``mean_sound``, which
        are those of the whole step. ``gst.explain(surgery)`` puts the means into words.
        """
        values: dict[str, Tensor] = {}
        for index, part in enumerate(self._parts):
            means = {f"mean_{name}": value for name, value in part.means.since_mark().items()}
            part.means.mark()
            prefix = f"group{index}/" if len(self._parts) > 1 else ""
            for name, value in {**part.diagnostics(), **means}.items():
                values[name if name in ("sound", "mean_sound") else prefix + name] = self._scalars.tensor(value)
        return values

    def state_dict(self) -> dict[str, Any]:
        """A snapshot of the state: averages, counts and scalars, as copies in plain containers.

        ``state["averages"][level][index]`` is the average of a parameter by its position in ``params``, for trainable
        parameters and for those that were trained before. If groups have their own methods, ``state["groups"]`` is the
        list of their states.
        """
        if self._gatherer.gradients:
            warnings.warn(
                "state_dict() does not contain the gradients that were gathered but not applied: call it after apply()",
                stacklevel=2,
            )
        states = [part.snapshot() for part in self._parts]
        return states[0] if len(states) == 1 else {"groups": states}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state, which is checked first, and drop gathered gradients; hyperparameters stay as they are."""
        states = [state]
        if len(self._parts) > 1:
            if not isinstance(state, Mapping) or not isinstance(state.get("groups"), list | tuple):
                raise ValueError(f"this Surgery has {len(self._parts)} methods, but the state was saved with one")
            states = list(state["groups"])
            if len(states) != len(self._parts):
                raise ValueError(
                    f"this Surgery has {len(self._parts)} methods, but the state was saved with {len(states)}"
                )
        for part, saved in zip(self._parts, states, strict=True):
            part.check(saved)
        for part, saved in zip(self._parts, states, strict=True):
            part.load(saved)
        self._gatherer.clear()
