"""``Surgery``: gathers the gradient of each loss and adds one direction to ``.grad``."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.parameter import is_lazy

from gradsurgery.method import Method
from gradsurgery.plan import basis
from gradsurgery.torch.accelerate import AcceleratorAdapter
from gradsurgery.torch.attach import Attachment, check_loaded, unwrap_optimizer
from gradsurgery.torch.distributed import Setup, find_setup
from gradsurgery.torch.dtensor import full
from gradsurgery.torch.gather import Gatherer
from gradsurgery.torch.losses import Gradients, Loss, check_scaler, read_gradients
from gradsurgery.torch.parameters import ParameterGroup, check_disjoint, check_method, collect_groups, read_group
from gradsurgery.torch.passes import check_compile
from gradsurgery.torch.scalars import Scalars
from gradsurgery.torch.step import Part
from gradsurgery.torch.untraced import untraced


class Surgery:
    """Trains parameters on a main loss and auxiliary losses by one of the methods of ``gradsurgery``.

        surgery = Surgery(model, gs.bloop(lam=0.1, rho=0.01))
        for batch in loader:
            surgery.backward(main_loss, aux_loss)     # instead of loss.backward(); call again to accumulate
            surgery.apply()                           # adds the direction to .grad
            optimizer.step()
            optimizer.zero_grad()

    Backward passes are ordinary ones. The parameters of the surgery get the direction of the method; every other
    trainable tensor that a loss reaches gets the plain sum of the losses' gradients, as ``(main + aux).backward()``
    would give it. So a network with a head for each loss takes surgery on its trunk: ``Surgery(model.trunk, method)``
    leaves each head to its loss. ``apply`` writes both to ``.grad``.

    It holds one average, in float32 or wider, for each level above the last, and between ``backward`` and ``apply`` one
    gradient for each loss. Nothing waits for the device, except in the first step under DistributedDataParallel. In an
    unsound step (an inner product or a weight is not finite) the averages stay as they are and the direction is NaN, so
    that a ``GradScaler`` skips the step. After an exception the gathered gradients are dropped, and the next step
    starts afresh. Between ``backward`` and ``apply`` no optimiser of these tensors may step: that raises.

    Inner products run over the parameters that take part in a step: trainable, and reached by a loss. A parameter that
    rests or is frozen keeps its average. One that joins later starts without; the bias correction of each average
    counts the steps that its parameter took part in.

    Each group of parameters may have a separate method, with separate inner products and averages:

        Surgery([{"params": model.trunk, "method": gs.bloop(lam=0.1)}, {"params": model.heads}], gs.mixed(lam=1.0))

    Args:
        params: a module, or parameters or groups of them as for an optimiser. Frozen parameters are skipped, and may be
            unfrozen later. A group is a dictionary with ``params`` and optionally ``method``. Groups without a method
            and single parameters are trained together by the method below.
        method: for example ``gradsurgery.bloop(lam=0.1)``.
        model: the module that holds the parameters, wrapped as it is trained, if ``params`` is not that module. Its
            type tells how processes share them: by DistributedDataParallel, by FSDP2 or, if it is neither, not at all.
        compile: whether to run the two passes over memory as fused kernels: C++ on the CPU, built in the first step by
            the compiler named in ``CXX`` or by ``c++``; Triton on CUDA and ROCm.
        measure: whether to compute every inner product, which makes ``diagnostics`` complete.
        average_dtype: ``torch.bfloat16`` halves the memory of the averages, which are then rounded stochastically; by
            default float32, or float64 for parameters in float64.
        accelerator: an ``accelerate.Accelerator``. With it, ``backward`` divides the losses by its
            ``gradient_accumulation_steps`` and scales them, as ``accelerator.backward`` does, and ``apply`` does
            nothing before the last micro-batch: call both for each one, inside ``accelerator.accumulate(model)``.
    """

    def __init__(
        self,
        params: Module | Iterable[Any],
        method: Method,
        *,
        model: Module | None = None,
        compile: bool = False,  # noqa: A002
        measure: bool = False,
        average_dtype: torch.dtype | None = None,
        accelerator: Any = None,
    ) -> None:
        check_method(method)
        if model is not None and not isinstance(model, Module):
            raise TypeError(f"model must be a module; got {model!r}")
        if average_dtype not in (None, torch.bfloat16):
            raise ValueError(f"average_dtype must be torch.bfloat16 or None; got {average_dtype!r}")
        self._model = model
        self._holder = params if model is None and isinstance(params, Module) else model
        self._accelerator = None if accelerator is None else AcceleratorAdapter(accelerator)
        groups = collect_groups(params)
        self._options: dict[str, Any] = {"compile": compile, "measure": measure, "average_dtype": average_dtype}
        self._method = method
        self._parameters: list[Tensor] = []
        self._names: list[str] = []
        self._modules: list[Module] = []
        self._parts: list[Part] = []
        self._shared: Part | None = None
        self._scalars = Scalars()
        for group in groups:
            self._add(group)
        self._gatherer = Gatherer(self._parameters, self._names, self._modules)
        self._setup: Setup | None = None
        self._attachments: list[Attachment] = []
        self._gradient_states: list[Any] = []  # of Accelerate's optimisers

    def __repr__(self) -> str:
        trainable = self._trainable()
        count, lazy = len(trainable), sum(map(is_lazy, trainable))
        elements = sum(parameter.numel() for parameter in trainable if not is_lazy(parameter))
        methods = ", ".join(repr(part.method) for part in self._parts)
        uninitialised = f" and {lazy} uninitialised" if lazy else ""
        return (
            f"Surgery({methods}, {count} trainable parameter{'s' * (count != 1)}, {elements:,} elements{uninitialised})"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_setup": None}  # process groups cannot be copied

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        for attachment in self._attachments:  # a copied optimiser has no hooks
            attachment.register()

    @property
    def method(self) -> Method:
        """The method of the groups without one. To change hyperparameters, assign a method of the same class."""
        return self._method

    @method.setter
    def method(self, method: Method) -> None:
        check_method(method)
        if self._shared is None:
            raise ValueError(
                "surgery.method must have a group to apply to; every group of this Surgery has a separate method: make "
                "lam or rho of that method a schedule or a tensor"
            )
        self._shared.state.check_method(method)
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
        if self._options["compile"]:  # fail here rather than in the first step
            for device in {parameter.device for parameter in group.parameters if parameter.requires_grad}:
                check_compile(device)
        part = self._shared if group.method is None else None
        if part is None:
            part = Part(group.method or self._method, self._scalars, **self._options)
            self._parts.append(part)
        if group.method is None:
            self._shared = part
        names = {} if self._holder is None else {id(p): name for name, p in self._holder.named_parameters()}
        names |= group.names
        start = len(self._parameters)
        labels = [names.get(id(p), f"parameter {position}") for position, p in enumerate(group.parameters, start)]
        part.add(group.parameters, labels, start)
        self._names += labels
        self._parameters += group.parameters
        self._modules += group.modules
        self._scalars.follow((parameter.device, parameter.dtype) for parameter in self._trainable())

    def _trainable(self) -> list[Tensor]:
        return [parameter for parameter in self._parameters if parameter.requires_grad]

    @untraced
    def backward(self, main: Loss, *aux: Loss) -> tuple[Tensor, ...]:
        """Gather the gradient of each loss; call again before ``apply`` to accumulate (divide each loss accordingly).

        Pass losses from one forward pass as tensors. Losses passed as functions are called in turn: forward, backward,
        forward, backward, main first. So only one graph is alive at a time, and DistributedDataParallel synchronises
        each gradient; two forward passes on one batch also update the statistics of BatchNorm twice. ``.grad`` stays as
        it is.

        Args:
            main: the main loss: a scalar tensor, or a function that returns one.
            *aux: the auxiliary losses, most important first.

        Returns:
            The detached losses, main first.
        """
        try:
            names, setup = self._start(len(aux))
            setup.check_passes()
            if self._accelerator is None:
                return self._gatherer.backward(names, (main, *aux), setup)
            values: list[Tensor] = []
            losses = [self._accelerator.wrap(loss, values) for loss in (main, *aux)]
            self._gatherer.backward(names, losses, setup)
            return tuple(map(full, values))
        except BaseException:
            self._gatherer.clear()
            raise

    @untraced
    def gather(self, main: Any, *aux: Any) -> None:
        """Gather gradients that you already have, instead of calling ``backward``; call again to accumulate.

            surgery.gather(main_grads, aux_grads)       # lists in the order of the parameters, or dicts by name
            surgery.apply()

        For ``torch.func``, gradients collected in buffers, and loops that synchronise by hand. The gradients are
        copied. If they were in ``.grad``, call ``optimizer.zero_grad()`` first: ``apply`` adds to what is there. Under
        DistributedDataParallel every process must give the same, synchronised gradients; ``apply`` compares them.

        Args:
            main: the gradients of the main loss: a list with one tensor, or None, for each parameter of the surgery, or
                a dictionary from the names of parameters to tensors.
            *aux: the gradients of the auxiliary losses, most important first.
        """
        try:
            names, _ = self._start(len(aux))
            gradients = [
                read_gradients(name, given, self._parameters, self._names)
                for name, given in zip(names, (main, *aux), strict=True)
            ]
            self._gatherer.add(gradients)
        except BaseException:
            self._gatherer.clear()
            raise

    def _start(self, aux_count: int) -> tuple[Sequence[str], Setup]:
        """The names of the losses, and how processes share the parameters; raises unless every method fits."""
        if torch.is_inference_mode_enabled():
            raise RuntimeError("a Surgery must be used outside torch.inference_mode()")
        for part in self._parts:
            part.check(aux_count)
        check_loaded(self._attachments)
        if self._setup is None:
            self._setup = find_setup(self._parameters, self._holder, declared=self._model is not None)
        return basis(self._parts[0].method, aux_count)[: 1 + aux_count], self._setup

    @untraced
    def apply(self, *, scaler: Any = None) -> None:
        """Combine the gathered gradients into a direction, add it to ``.grad``, and update the averages.

        As with ``backward()``, ``.grad`` accumulates: what a plain ``loss.backward()`` has left there is kept. A
        parameter that no loss reaches keeps its ``.grad``. If only some losses reach a parameter, the gradients of the
        others count as zero.

        Args:
            scaler: the ``GradScaler`` that scaled the losses. Averages are kept unscaled; the direction stays scaled,
                for ``scaler.unscale_`` and ``scaler.step``, which come afterwards. Without it, scaled losses fill the
                averages with gradients of different scales. Leave it out if the surgery has an ``accelerator``.
        """
        accelerator = self._accelerator
        if accelerator is not None and scaler is None and not accelerator.sync_gradients:
            return
        try:
            if accelerator is not None:
                if scaler is not None:
                    raise ValueError("apply() must be called without scaler if the surgery has an accelerator")
                scaler = accelerator.scaler
            elif any(not state.sync_gradients for state in self._gradient_states):
                raise RuntimeError(
                    "apply() was called inside accelerator.accumulate before the last micro-batch: make the surgery "
                    "with Surgery(..., accelerator=accelerator)"
                )
            if torch.is_inference_mode_enabled():
                raise RuntimeError("apply() must be called outside torch.inference_mode()")
            check_scaler(scaler)
            self._step(scaler)
        finally:
            self._gatherer.clear()

    def _step(self, scaler: Any) -> None:
        gradients, scalars = self._gatherer.gradients, self._scalars
        if not gradients:
            raise RuntimeError("apply needs gradients: call surgery.backward(main_loss, aux_loss) first")
        layouts = [part.layout.lay_out(gradients) for part in self._parts]
        scalars.follow((device, dtype) for layout in layouts for _, device, dtype in layout.groups)
        scale = None if scaler is None else scalars.formula_scalar(scaler.scale(scalars.tensor(1.0)))
        replicas = self._setup.replicas if self._setup is not None else ()
        steps = [
            part.plan(layout, len(gradients) - 1, scale, replicas)
            for part, layout in zip(self._parts, layouts, strict=True)
        ]
        sound = reduce(and_, (step.sound for step in steps))
        directions: Gradients = [None] * len(self._parameters)
        for part, step in zip(self._parts, steps, strict=True):
            part.finish(step, sound, directions)
        self._gatherer.add_to_grad(directions)

    def discard(self) -> None:
        """Drop the gradients gathered since the last ``apply``, as if ``backward`` had not been called.

        For a batch that is skipped after ``backward``, where ``optimizer.zero_grad()`` would drop the gradients of
        ``loss.backward()``: it clears ``.grad``, and these are not there yet.
        """
        self._gatherer.clear()

    def attach(self, *optimizers: Any) -> None:
        """Save and load the state of this surgery with the optimiser's.

            surgery.attach(optimizer)                          # before or after loading a checkpoint
            torch.save(optimizer.state_dict(), "optimizer.pt")
            optimizer.load_state_dict(torch.load("optimizer.pt", weights_only=True))

        Loading a state drops gathered gradients; one that was saved without ``attach`` leaves the averages as they are,
        with a warning.
        Averages are stored beside the optimiser's own state of each parameter, so
        ``torch.distributed.checkpoint.state_dict.get_optimizer_state_dict`` saves and reshards them too (not with
        ``flatten_optimizer_state_dict=True``, which loads only what the optimiser itself keeps: a warning says so).

        Args:
            optimizers: optimisers of ``torch.optim``, plain or wrapped by Accelerate or Lightning. If several
                train the parameters between them, pass all of them, and load the states of all. A surgery on the same
                parameters that was attached before, for example with another method, is detached.
        """
        inner = [unwrap_optimizer(optimizer) for optimizer in optimizers]
        attached = [attachment.optimizer for attachment in self._attachments]
        optimized = {
            id(parameter)
            for optimizer in (*attached, *inner)
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        missing = [parameter for parameter in self._trainable() if id(parameter) not in optimized]
        if missing:
            raise ValueError(
                f"attach needs the optimisers of all trainable parameters; {len(missing)} of "
                f"{len(self._trainable())} are in none of them"
            )
        self._gradient_states += [o.gradient_state for o in optimizers if hasattr(o, "gradient_state")]
        for optimizer in inner:
            if optimizer not in attached:
                attachment = Attachment(optimizer, self._parts, self._gatherer)
                attachment.register()
                self._attachments.append(attachment)

    def diagnostics(self) -> dict[str, Tensor]:
        """Diagnostics of the last step, and means since the last ``reset_means()``; nothing waits for the device.

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
        mean_sound         0 to 1     share of sound steps; below 0.99: look for overflow, or lower the learning rate
        =================  =========  ===============================================================================

        A second auxiliary loss has ``conflict2``, ``cos_main_aux2`` and so on. Means are over sound steps. Values that
        need inner products which the method does not compute are included with ``Surgery(..., measure=True)``. With
        several methods, names start with ``group0/``, ``group1/``, ... except for ``sound`` and ``mean_sound``, which
        are those of the whole step. ``gst.explain(surgery)`` puts the means into words.
        """
        values: dict[str, Tensor] = {}
        for index, part in enumerate(self._parts):
            means = {f"mean_{name}": value for name, value in part.means.window().items()}
            prefix = f"group{index}/" if len(self._parts) > 1 else ""
            for name, value in {**part.diagnostics(), **means}.items():
                values[name if name in ("sound", "mean_sound") else prefix + name] = self._scalars.tensor(value)
        return values

    def reset_means(self) -> None:
        """Start a new window for the means in ``diagnostics``; those of ``gst.explain`` go on."""
        for part in self._parts:
            part.means.reset()

    def state_dict(self) -> dict[str, Any]:
        """A snapshot of the state: averages, counts and scalars, as copies in plain containers.

        ``state["averages"][level][index]`` is the average of a parameter by its position in ``params``, for trainable
        parameters and for those that were trained before. If groups have separate methods, ``state["groups"]`` is the
        list of their states, and positions are those in the group.
        """
        if self._gatherer.gradients:
            warnings.warn(
                "state_dict() does not contain the gradients that were gathered but not applied: call it after apply()",
                stacklevel=2,
            )
        states = [part.state.snapshot() for part in self._parts]
        return states[0] if len(states) == 1 else {"groups": states}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state, which is checked first, and drop gathered gradients; hyperparameters stay as they are."""
        states, count = [state], len(self._parts)
        if count > 1:
            groups = state.get("groups") if isinstance(state, Mapping) else None
            states = list(groups) if isinstance(groups, list | tuple) else [state]
            if len(states) != count:
                raise ValueError(f"the state must be one of {count} methods; got one of {len(states)}")
        for part, saved in zip(self._parts, states, strict=True):
            part.state.check(saved)
        for part, saved in zip(self._parts, states, strict=True):
            part.load(saved)
        self._gatherer.clear()
