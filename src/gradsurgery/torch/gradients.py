"""Step 1, gather: one backward pass for each loss, each gradient kept apart from the others and from ``.grad``."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import Node
from torch.nn import Parameter

from gradsurgery.torch.blocks import make_dense
from gradsurgery.torch.dtensor import add_gradients, full, place_like, raise_on_freed_parameters
from gradsurgery.torch.parallel import ParallelSetup
from gradsurgery.torch.parameters import check_trainable
from gradsurgery.torch.uncovered import warn_uncovered

Loss: TypeAlias = Tensor | Callable[[], Tensor]

Gradients = list[Tensor | None]
"""The gradient of one loss, parameter by parameter; None where the loss does not reach."""


class Gatherer:
    """Gathers the gradients of one step, from one or more calls of ``backward``."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self._parameters = parameters
        self.gradients: list[Gradients] = []
        """The gradient of each loss, main first; empty between steps."""
        self._uncovered: dict[int, Tensor] | None = {}

    def clear(self) -> None:
        """Drop the gathered gradients."""
        self.gradients = []

    def backward(self, names: Sequence[str], losses: Sequence[Loss], setup: ParallelSetup) -> tuple[Tensor, ...]:
        """Add the gradients of these losses and return their values; ``.grad`` is restored."""
        if self.gradients and len(self.gradients) != len(losses):
            raise ValueError(f"backward was called with {len(self.gradients)} losses before, but got {len(losses)}")
        gathered = self.gradients or [[None] * len(self._parameters) for _ in losses]
        before = [_copy_bucket_view(parameter.grad, setup) for parameter in self._parameters]
        values = []
        try:
            for index, (name, loss) in enumerate(zip(names, losses, strict=True)):
                later = [other for other in losses[index + 1 :] if isinstance(other, Tensor)]
                value, gathered[index] = self._gather(name, loss, gathered[index], later, setup)
                values.append(value)
        finally:
            for parameter, gradient in zip(self._parameters, before, strict=True):
                parameter.grad = gradient
        self.gradients = gathered
        if self._uncovered:
            warn_uncovered(list(self._uncovered.values()))
            self._uncovered = None  # once is enough
        return tuple(values)

    def add_to_grad(self, directions: Gradients) -> None:
        """Add the directions to ``.grad``, as ``backward()`` does: in place, or without a copy where it is None."""
        for parameter, direction in zip(self._parameters, directions, strict=True):
            if direction is None:
                continue
            gradient = parameter.grad
            if gradient is None:
                parameter.grad = direction
            elif gradient.layout is not torch.strided:
                parameter.grad = direction.add_(gradient)
            else:
                parameter.grad = add_gradients(place_like(parameter, gradient), direction)

    def _gather(
        self, name: str, loss: Loss, before: Gradients, later: list[Tensor], setup: ParallelSetup
    ) -> tuple[Tensor, Gradients]:
        """One backward pass; returns the value of the loss, and its gradients added to those before."""
        for parameter, gradient in zip(self._parameters, before, strict=True):
            parameter.grad = None if setup.sharded else gradient
        try:
            value = _evaluate(name, loss)
            versions = [parameter._version for parameter in self._parameters]
            uncovered = _backward(value, self._parameters, later, setup)
            if not setup.hooked and versions != [parameter._version for parameter in self._parameters]:
                raise RuntimeError(
                    f"parameters changed in the backward pass of the {name} loss: an optimiser must step after "
                    "surgery.apply(), not in a hook of a parameter"
                )
            gradients = self._owned_gradients(name)
        except RuntimeError as error:
            advice = setup.advice(error) or (_freed_graph_advice(name) if "second time" in str(error) else None)
            if advice is None:
                raise
            raise RuntimeError(advice) from error
        setup.check_synchronised(name)
        if uncovered and self._uncovered is not None:
            self._uncovered.update(uncovered)
        if all(gradient is None for gradient in gradients):
            raise RuntimeError(f"the {name} loss reaches none of the parameters")
        if setup.sharded:
            gradients = [add_gradients(*pair) for pair in zip(before, gradients, strict=True)]
        return full(value.detach()), gradients

    def _owned_gradients(self, name: str) -> Gradients:
        """``.grad`` of each parameter: dense, placed as the parameter is, and sole owner of its memory.

        The direction is written into these tensors. Autograd may give several parameters the same memory, or part of a
        larger tensor, and DDP gives views of buckets that it writes to again; those are copied. All in one loop:
        in a small model every Python call counts.
        """
        gradients: Gradients = []
        addresses: set[int] = set()
        for parameter in self._parameters:
            gradient = parameter.grad
            if gradient is not None:
                if gradient.layout is not torch.strided:
                    raise TypeError(
                        f"the {name} loss has a sparse gradient ({gradient.layout}), but surgery needs dense ones: "
                        "make the embedding with sparse=False"
                    )
                if type(gradient) is not Tensor or not gradient.is_contiguous():
                    gradient = make_dense(place_like(parameter, gradient))
                if type(gradient) is Tensor:
                    memory = gradient.untyped_storage()
                    address = memory.data_ptr()
                    # _is_view too: a parameter that fills a bucket of DDP has the size of its memory
                    if memory.nbytes() != gradient.nbytes or address in addresses or gradient._is_view():
                        gradient = gradient.clone()
                    addresses.add(address)
            gradients.append(gradient)
        return gradients


def _evaluate(name: str, loss: Loss) -> Tensor:
    """The loss as a scalar tensor with a graph; a function is called."""
    if not isinstance(loss, Tensor):
        if not callable(loss):
            raise TypeError(f"the {name} loss is a scalar tensor or a function that returns one, but got {loss!r}")
        loss = loss()
    if not isinstance(loss, Tensor):
        raise TypeError(f"the function of the {name} loss returns a scalar tensor, but got {loss!r}")
    if loss.numel() != 1:
        raise ValueError(f"the {name} loss is a scalar, but got a tensor of shape {tuple(loss.shape)}")
    if not loss.requires_grad:
        raise ValueError(
            f"the {name} loss has no graph: it does not depend on parameters, or was computed under no_grad"
        )
    return loss


class _Graph:
    """The part of the autograd graph that the backward passes of these losses visit."""

    def __init__(self, losses: Iterable[Tensor]) -> None:
        nodes: set[Node] = set()
        leaves: dict[int, Tensor] = {}
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

    @property
    def hides_parameters(self) -> bool:
        """Whether it contains reentrant activation checkpoints, which build their graphs in the backward pass."""
        return any(type(node).__name__ == "CheckpointFunctionBackward" for node in self.nodes)


def _backward(
    loss: Tensor, parameters: list[Tensor], later: Sequence[Tensor], setup: ParallelSetup
) -> dict[int, Tensor]:
    """``loss.backward()``, restricted to the parameters where possible; keeps the graph if a later loss needs it.

    Returns:
        The trainable parameters that the loss reaches and that are not among these, by id.
    """
    graph = _Graph([loss])
    retain_graph = bool(later) and graph.shares_nodes(_Graph(later))
    if setup.sharded:
        raise_on_freed_parameters(graph.nodes)
    if setup.bypasses_ddp(graph.nodes):
        trainable = _trainable(parameters)
        gradients = torch.autograd.grad(loss, trainable, retain_graph=retain_graph, allow_unused=True)
        for parameter, gradient in zip(trainable, gradients, strict=True):
            parameter.grad = add_gradients(parameter.grad, gradient)
        return {}
    other_leaves = graph.leaves.keys() - {id(parameter) for parameter in parameters}
    unrestricted = setup.hooked or (not other_leaves and bool(graph.leaves)) or graph.hides_parameters
    inputs = None if unrestricted else _trainable(parameters)
    loss.backward(retain_graph=retain_graph, inputs=inputs)  # type: ignore[no-untyped-call]
    if setup.sharded:  # FSDP2 computes with gathered parameters, which are not those of the user
        return {}
    return {key: graph.leaves[key] for key in other_leaves if isinstance(graph.leaves[key], Parameter)}


def _trainable(parameters: list[Tensor]) -> list[Tensor]:
    check_trainable(parameters)
    return [parameter for parameter in parameters if parameter.requires_grad]


def _copy_bucket_view(gradient: Tensor | None, setup: ParallelSetup) -> Tensor | None:
    """The gradient, copied if it may be a view of a DDP bucket, which the next backward pass overwrites."""
    return gradient.clone() if gradient is not None and setup.replicas and gradient._is_view() else gradient


def _freed_graph_advice(name: str) -> str:
    return (
        f"the graph of the {name} loss has been freed, by an earlier loss.backward() (which then needs "
        "retain_graph=True) or by another loss that shares its forward pass: give such losses as tensors, "
        "surgery.backward(main_loss, aux_loss), or let each function run a forward pass of its own"
    )
