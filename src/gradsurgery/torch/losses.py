"""Losses as users hand them in, and one backward pass for each."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from torch import Tensor
from torch.autograd.graph import Node

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


def shares_graph(loss: Tensor, others: Sequence[Tensor]) -> bool:
    """Whether the backward pass of a later loss goes through the graph of this one."""
    if not others:
        return False
    nodes = _nodes([loss])
    return not nodes.isdisjoint(_nodes(others))


def _nodes(losses: Iterable[Tensor]) -> set[Node]:
    """The nodes that keep tensors for the backward pass: all but the leaves."""
    found: set[Node] = set()
    stack = [loss.grad_fn for loss in losses]
    while stack:
        node = stack.pop()
        if node is not None and node not in found and node.next_functions:
            found.add(node)
            stack.extend(following for following, _ in node.next_functions)
    return found


def backward(loss: Tensor, inputs: Sequence[Tensor] | None, retain_graph: bool) -> None:
    """``loss.backward``, with torch's advice put into our terms where it does not fit."""
    try:
        loss.backward(retain_graph=retain_graph, inputs=inputs)  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        if "second time" in str(error):
            raise RuntimeError(
                "two losses go through one graph, and the first has freed it: give losses that share a forward pass as "
                "tensors, surgery.backward(main_loss, aux_loss), or let each function make a pass of its own"
            ) from error
        if "Checkpointing is not compatible" in str(error):
            raise RuntimeError(
                "reentrant activation checkpointing cannot tell parameters apart: use checkpoint(..., use_reentrant=False)"
            ) from error
        raise
