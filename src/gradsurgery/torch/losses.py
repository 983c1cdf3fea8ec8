"""Losses as users hand them in, and one backward pass for each."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import Node

from gradsurgery.torch.parallel import Wrapping, added, refuse_freed

Loss: TypeAlias = Tensor | Callable[[], Tensor]


def value(loss: Loss, name: str) -> Tensor:
    """The loss as a scalar tensor with a graph, called if it is a function."""
    if not isinstance(loss, Tensor):
        if not callable(loss):
            raise TypeError(f"the {name} loss is a scalar tensor or a function that returns one, but got {loss!r}")
        loss = loss()
    if not isinstance(loss, Tensor):
        raise TypeError(f"the function of the {name} loss returns a scalar tensor, but got {loss!r}")
    if loss.numel() != 1:
        raise ValueError(f"the {name} loss is a scalar, but got a tensor of shape {tuple(loss.shape)}")
    if not loss.requires_grad:
        raise ValueError(f"the {name} loss has no graph: it is computed without parameters, or under no_grad")
    return loss


class Graph:
    """What the backward pass of some losses goes through."""

    def __init__(self, losses: Iterable[Tensor]) -> None:
        self.nodes: set[Node] = set()
        """Those that keep tensors for the backward pass."""
        self.reached: set[int] = set()
        """The ids of the tensors at its ends."""
        stack = [loss.grad_fn for loss in losses]
        while stack:
            node = stack.pop()
            if node is None or node in self.nodes:
                continue
            if following := node.next_functions:
                self.nodes.add(node)
                for one, _ in following:
                    stack.append(one)
            else:
                self.reached.add(id(getattr(node, "variable", None)))

    def shares(self, other: "Graph") -> bool:
        """Whether one's backward pass frees what the other's needs."""
        return not self.nodes.isdisjoint(other.nodes)

    def ends_in(self, parameters: Mapping[int, Tensor]) -> bool:
        """Whether all that it reaches is among these parameters, given by their ids."""
        return bool(self.reached) and self.reached <= parameters.keys()

    @property
    def hides_parameters(self) -> bool:
        """Whether it has parts with a graph of their own, as reentrant activation checkpoints do."""
        return "CheckpointFunctionBackward" in {type(node).__name__ for node in self.nodes}


def backward(loss: Tensor, parameters: Mapping[int, Tensor], later: Sequence[Tensor], wrapping: Wrapping) -> None:
    """``loss.backward``, to the parameters alone where that can be, keeping the graph if a later loss needs it.

    Args:
        loss: the loss.
        parameters: what gets gradients, by ids.
        later: losses whose backward pass is still to come.
        wrapping: what DDP or FSDP2 do with the parameters; they wait for gradients in hooks, which a backward pass to
            chosen inputs goes around.
    """
    graph = Graph([loss])
    free = wrapping.hooked or graph.ends_in(parameters) or graph.hides_parameters
    inputs = None if free else [one for one in parameters.values() if one.requires_grad]
    try:
        keep = bool(later) and graph.shares(Graph(later))
        if wrapping.goes_around(graph.nodes):
            wanted = [one for one in parameters.values() if one.requires_grad]
            found = torch.autograd.grad(loss, wanted, retain_graph=keep, allow_unused=True)
            for parameter, gradient in zip(wanted, found, strict=True):
                parameter.grad = added(parameter.grad, gradient)
            return
        if wrapping.sharded:
            refuse_freed(graph.nodes)
        loss.backward(retain_graph=keep, inputs=inputs)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if "second time" in str(error):
            raise RuntimeError(
                "two losses go through one graph, and the first has freed it: give losses that share a forward pass as "
                "tensors, surgery.backward(main_loss, aux_loss), or let each function make a pass of its own"
            ) from error
        raise
