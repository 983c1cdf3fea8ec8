"""Losses in, gradients out: one ordinary backward pass for each loss, its gradients kept apart until ``apply``.

A parameter of the surgery has one gradient for each loss. Every other leaf that a loss reaches (a head, a learnable
temperature) has the sum of its gradients, as ``(main + aux).backward()`` would give it. ``.grad`` is put aside during a
backward pass only: when a loss function runs, it holds what the user left there.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.nn import Module
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.weak import WeakTensorKeyDictionary

from gradsurgery.torch.distributed import Setup
from gradsurgery.torch.dtensor import add_gradients, full, place_like, raise_on_freed_parameters
from gradsurgery.torch.layout import make_dense
from gradsurgery.torch.losses import Gradients, Loss, evaluate


class Gatherer:
    """Gathers the gradients of one step, from one or more calls of ``backward`` or ``add``.

    Args:
        parameters: the parameters of the surgery, a live list.
        names: their names for messages, a live list.
        modules: those whose parameters they are, as far as they were given as modules, a live list.
    """

    def __init__(self, parameters: list[Tensor], names: list[str], modules: list[Module]) -> None:
        self._parameters, self._names, self._modules = parameters, names, modules
        self._checked = WeakTensorKeyDictionary()  # not ids: a later tensor may get the id of one that is gone
        self._most_calls = 0
        self.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_checked"}  # weak references

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _checked=WeakTensorKeyDictionary())

    def clear(self) -> None:
        """Drop the gathered gradients."""
        self.gradients: list[Gradients] = []
        """The gradient of each loss, main first; empty between steps."""
        self._others: dict[int, tuple[Tensor, Tensor]] = {}
        """The leaves outside the surgery that the losses reached, by id, with the sums of their gradients."""
        self._calls = 0
        _pending.discard(self)

    def holds(self, optimizer: Optimizer) -> bool:
        """Whether it gathers gradients for any parameter of the optimiser."""
        ids = self._others.keys() | set(map(id, self._parameters))
        return any(id(parameter) in ids for group in optimizer.param_groups for parameter in group["params"])

    def backward(self, names: Sequence[str], losses: Sequence[Loss], setup: Setup) -> tuple[Tensor, ...]:
        """Add the gradients of these losses and return their values; ``.grad`` stays as it is."""
        gathered = self._start(len(losses))
        values = []
        for index, (name, loss) in enumerate(zip(names, losses, strict=True)):
            later = [other for other in losses[index + 1 :] if isinstance(other, Tensor)]
            try:
                value, gathered[index] = self._gather(name, loss, gathered[index], later, setup)
            except RuntimeError as error:
                advice = setup.advice(error) or _advice(name, error)
                if advice is None:
                    raise
                raise RuntimeError(advice) from error
            values.append(value)
        self._keep(gathered)
        return tuple(values)

    def add(self, gradients: Sequence[Gradients]) -> None:
        """Add gradients that were computed elsewhere; they are copied."""
        gathered = self._start(len(gradients))
        self._keep(
            [
                [
                    _copy(parameter, new) if old is None else add_gradients(old, new if new is None else new.detach())
                    for parameter, old, new in zip(self._parameters, before, after, strict=True)
                ]
                for before, after in zip(gathered, gradients, strict=True)
            ]
        )

    def add_to_grad(self, directions: Gradients) -> None:
        """Add the directions, and the sums of leaves outside the surgery, to ``.grad``, as ``backward()`` does."""
        for parameter, direction in zip(self._parameters, directions, strict=True):
            if direction is not None:
                _add_to_grad(parameter, direction)
        for leaf, gradient in self._others.values():
            _add_to_grad(leaf, gradient)
        self._most_calls = max(self._most_calls, self._calls)

    def _start(self, count: int) -> list[Gradients]:
        """The gradients so far, for this number of losses."""
        if self.gradients and len(self.gradients) != count:
            raise ValueError(
                f"all micro-batches of a step must have the same number of losses, {len(self.gradients)}; got {count}"
            )
        if self._calls == self._most_calls > 0:
            warnings.warn(
                f"this step adds up more micro-batches than any before it, which had at most {self._calls}: if an "
                "earlier batch was skipped, its gradients are part of this step, because zero_grad() does not reach "
                "what surgery.backward() has gathered: call surgery.discard() where you skip a batch",
                stacklevel=5,
            )
        _pending.add(self)
        return self.gradients or [[None] * len(self._parameters) for _ in range(count)]

    def _keep(self, gathered: list[Gradients]) -> None:
        self.gradients = gathered
        self._calls += 1

    def _gather(
        self, name: str, loss: Loss, so_far: Gradients, later: Sequence[Tensor], setup: Setup
    ) -> tuple[Tensor, Gradients]:
        """One backward pass: the value of a loss, and its gradients added to those so far. ``_others`` is updated."""
        loss = evaluate(name, loss)  # runs user code, so .grad must be the user's here
        graph = _Graph([loss])
        retain_graph = bool(later) and graph.shares_nodes(_Graph(later))
        if setup.sharded:
            raise_on_freed_parameters(graph.nodes)
        others = self._find_others(graph, setup)
        leaves = [*self._parameters, *others]
        sums = [self._others[id(leaf)][1] if id(leaf) in self._others else None for leaf in others]
        users = [setup.detach_from_bucket(leaf.grad) for leaf in leaves]
        versions = [leaf._version for leaf in leaves]
        try:
            # DDP reduces what is in .grad, gradients of earlier micro-batches included; FSDP2 accumulates by itself
            for leaf, gradient in zip(leaves, [*so_far, *sums], strict=True):
                leaf.grad = None if setup.sharded else gradient
            _run_backward(loss, graph, leaves, retain_graph, setup)
            setup.check_synchronised(name)
            if not setup.hooked and versions != [leaf._version for leaf in leaves]:
                raise RuntimeError(
                    f"parameters changed in the backward pass of the {name} loss: an optimiser must step after "
                    "surgery.apply(), not in a hook of a parameter"
                )
            gradients = self._take_gradients(name, graph)
            taken = [_copy_shared(leaf.grad) for leaf in others]
        finally:
            for leaf, gradient in zip(leaves, users, strict=True):
                leaf.grad = gradient
        if all(gradient is None for gradient in gradients):
            raise RuntimeError(f"the {name} loss must reach a parameter of the surgery; it reaches none")
        if setup.sharded:
            gradients = [add_gradients(*pair) for pair in zip(so_far, gradients, strict=True)]
            taken = [add_gradients(*pair) for pair in zip(sums, taken, strict=True)]
        self._others |= {
            id(leaf): (leaf, gradient) for leaf, gradient in zip(others, taken, strict=True) if gradient is not None
        }
        return full(loss.detach()), gradients

    def _find_others(self, graph: "_Graph", setup: Setup) -> list[Tensor]:
        """The trainable leaves outside the surgery that the loss may reach: those of its graph and of the model.

        A leaf that is in neither (of another module, behind a reentrant checkpoint) gets its gradient in ``.grad`` at
        once.
        """
        inside = {id(parameter) for parameter in self._parameters}
        others = {key: graph.leaves[key] for key in graph.leaves.keys() - inside}
        if not setup.sharded:  # in a forward pass FSDP2 puts gathered parameters into the module
            self._check_others({key: leaf for key, leaf in others.items() if leaf not in self._checked})
        others |= {id(parameter): parameter for parameter in setup.outside}
        return [leaf for leaf in others.values() if leaf.requires_grad]

    def _check_others(self, leaves: Mapping[int, Tensor]) -> None:
        """Raise if a module has got any of these leaves after the surgery was made; checks each leaf once."""
        modules = self._modules if leaves else []
        new = [name for module in modules for name, leaf in module.named_parameters() if id(leaf) in leaves]
        if new:
            raise RuntimeError(
                f"the module of this Surgery has parameters that it had not when the surgery was made: "
                f"{', '.join(new)}; make the surgery after changing the module, or call "
                'surgery.add_param_group({"params": parameters})'
            )
        self._checked.update(dict.fromkeys(leaves.values()))

    def _take_gradients(self, name: str, graph: "_Graph") -> Gradients:
        """``.grad`` of each parameter: dense, placed as the parameter is, and sole owner of its memory.

        The direction is written into these tensors, so those that share their memory are copied. All in one loop: in a
        small model every Python call counts.
        """
        gradients: Gradients = []
        for parameter, label in zip(self._parameters, self._names, strict=True):
            gradient = parameter.grad
            if gradient is not None:
                if gradient.layout is not torch.strided:
                    raise TypeError(
                        f"the gradient of the {name} loss must be dense; got {gradient.layout} for {label}: make the "
                        "embedding with sparse=False"
                    )
                if type(gradient) is not Tensor or not gradient.is_contiguous() or gradient.is_neg():
                    gradient = make_dense(place_like(parameter, gradient.resolve_neg()))
                if type(gradient) is Tensor and (_shares_memory(gradient) or parameter._post_accumulate_grad_hooks):
                    gradient = gradient.clone()
            elif parameter._post_accumulate_grad_hooks and id(parameter) in graph.leaves:
                raise RuntimeError(
                    f"a hook has removed the gradient of the {name} loss from .grad of {label}: "
                    "collect the gradients of each loss yourself and call surgery.gather(main_grads, aux_grads)"
                )
            gradients.append(gradient)
        return gradients


_pending: WeakSet[Gatherer] = WeakSet()
"""Those between the start of ``backward`` and the end of ``apply``."""


def _check_applied(optimizer: Optimizer, *_: Any) -> None:
    """Raise if an optimiser steps between ``backward`` and ``apply``: it would find no gradients, or half of them."""
    if any(gatherer.holds(optimizer) for gatherer in list(_pending)):
        raise RuntimeError(
            "optimizer.step() was called with gradients that the surgery has gathered but not applied: call "
            "surgery.apply() before optimizer.step(), or surgery.discard() to drop them; an optimiser of these tensors "
            "must not step in a loss function or in a hook of the backward pass"
        )


register_optimizer_step_pre_hook(_check_applied)


class _Graph:
    """The part of the autograd graph that the backward passes of these losses visit."""

    def __init__(self, losses: Iterable[Tensor]) -> None:
        nodes: set[Node] = set()
        leaves: dict[int, Tensor] = {id(loss): loss for loss in losses if loss.grad_fn is None}
        stack = [loss.grad_fn for loss in losses]
        while stack:
            node = stack.pop()
            if node is None or node in nodes:
                continue
            if next_functions := node.next_functions:
                nodes.add(node)
                for following, _ in next_functions:
                    stack.append(following)
            elif (leaf := getattr(node, "variable", None)) is not None:
                leaves[id(leaf)] = leaf
        self.nodes = nodes
        """The inner nodes, which may hold saved tensors."""
        self.leaves = leaves
        """The leaf tensors by id."""

    def shares_nodes(self, other: "_Graph") -> bool:
        """Whether the backward pass through one graph frees tensors that the other needs."""
        return not self.nodes.isdisjoint(other.nodes)


def _run_backward(loss: Tensor, graph: _Graph, leaves: Sequence[Tensor], retain_graph: bool, setup: Setup) -> None:
    """``loss.backward()``, or the same without DDP's hooks where those would fail."""
    if not setup.bypasses_ddp(graph.nodes):
        loss.backward(retain_graph=retain_graph)  # type: ignore[no-untyped-call]
        return
    inputs = [leaf for leaf in leaves if leaf.requires_grad]
    gradients = torch.autograd.grad(loss, inputs, retain_graph=retain_graph, allow_unused=True)
    for leaf, gradient in zip(inputs, gradients, strict=True):
        leaf.grad = add_gradients(leaf.grad, gradient)


def _shares_memory(gradient: Tensor) -> bool:
    """Whether the memory of a gradient has another owner, or is part of a larger tensor.

    Autograd hands on what a backward function returns, which may be a saved tensor; it may give several parameters the
    same memory; DDP and hooks give views of buffers that they write to again.
    """
    memory = gradient.untyped_storage()
    owners = torch._C._storage_Use_Count(memory._cdata)  # two: the gradient and ``memory``
    # _is_view too: a parameter that fills a bucket of DDP has the size of its memory
    return owners > 2 or memory.nbytes() != gradient.nbytes or gradient._is_view()


def _copy_shared(gradient: Tensor | None) -> Tensor | None:
    """The gradient of a leaf outside the surgery, copied if it shares its memory: later ones are added to it."""
    is_shared = type(gradient) is Tensor and gradient.layout is torch.strided and _shares_memory(gradient)
    return gradient.clone() if gradient is not None and is_shared else gradient


def _copy(parameter: Tensor, gradient: Tensor | None) -> Tensor | None:
    """A dense copy of a gradient, placed as its parameter is."""
    return None if gradient is None else make_dense(place_like(parameter, gradient.detach()).clone())


def _add_to_grad(leaf: Tensor, addition: Tensor) -> None:
    """Add to ``.grad`` in place, or without a copy where it is None."""
    gradient = leaf.grad
    try:
        if gradient is None:
            leaf.grad = addition
        elif gradient.layout is not torch.strided or addition.layout is not torch.strided:
            leaf.grad = addition + gradient
        else:
            leaf.grad = add_gradients(place_like(leaf, gradient), addition)
    except RuntimeError as error:
        if (leaf.dtype, leaf.device) == (addition.dtype, addition.device):
            raise
        raise RuntimeError(
            f"parameters must keep their type and device between backward() and apply(); got a gradient in "
            f"{addition.dtype} on {addition.device} for a parameter in {leaf.dtype} on {leaf.device}"
        ) from error


def _advice(name: str, error: RuntimeError) -> str | None:
    """What to do about an error of autograd, whose own advice is for a single loss."""
    if "second time" in str(error):
        return (
            f"the graph of the {name} loss has been freed, by an earlier loss.backward() (which then needs "
            "retain_graph=True) or by another loss that shares its forward pass: give such losses as tensors, "
            "surgery.backward(main_loss, aux_loss), or let each function run a separate forward pass"
        )
    if "donated buffers" in str(error):
        return (
            f"the {name} loss shares a forward pass of a compiled model with a later loss, and its graph was compiled "
            "for one backward pass: set torch._functorch.config.donated_buffer = False before torch.compile, or give "
            "the losses as functions, surgery.backward(main_fn, aux_fn)"
        )
    return None
