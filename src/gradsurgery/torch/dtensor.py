"""Parameters sharded by FSDP2: each process holds a shard, and inner products are summed over the shards."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import torch.distributed as dist
from torch import Tensor
from torch.autograd.graph import Node
from torch.nn import Parameter

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

Shards = tuple[object, tuple[int, ...]]
"""A device mesh, and those of its dimensions that a tensor is sharded over."""

GATHERED_ADVICE = (
    "a loss uses parameters that FSDP2 has gathered for a forward pass: give the losses as functions, "
    "surgery.backward(main_fn, aux_fn), so that a loss of the parameters alone is computed after the passes before it"
)


def is_dtensor(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether a tensor is a DTensor. Looks the class up without importing it: the import is slow, and rarely needed."""
    if type(tensor) in (Tensor, Parameter):
        return False
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local(tensor: Tensor) -> Tensor:
    """The part of a tensor that this process holds, sharing its memory."""
    return tensor.to_local() if is_dtensor(tensor) else tensor


def full(tensor: Tensor) -> Tensor:
    """The whole tensor, gathered from its shards; a collective call."""
    return tensor.full_tensor() if is_dtensor(tensor) else tensor


def shards_of(tensor: Tensor) -> Shards | None:
    """Where the other shards of a tensor are; None if this process holds all of it."""
    if not is_dtensor(tensor):
        return None
    # not is_shard(), which is False for the strided shards of FSDP2 with tensor parallelism
    dimensions = tuple(index for index, placement in enumerate(tensor.placements) if not placement.is_replicate())
    return (tensor.device_mesh, dimensions) if dimensions else None


def sum_over_shards(values: Tensor, shards: Shards) -> Tensor:
    """Sum the values over all processes that hold a shard, in place."""
    mesh, dimensions = shards
    for dimension in dimensions:
        dist.all_reduce(values, group=mesh.get_group(dimension))  # type: ignore[attr-defined]
    return values


def place_like(parameter: Tensor, gradient: Tensor) -> Tensor:
    """The gradient, sharded as its parameter is; a loss of the parameters alone may give another placement."""
    if is_dtensor(parameter) and is_dtensor(gradient) and gradient.placements != parameter.placements:
        return gradient.redistribute(parameter.device_mesh, parameter.placements)
    return gradient


def add_gradients(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """The sum of two gradients with equal placements, in the memory of the first; None counts as zero."""
    if first is None or second is None:
        return second if first is None else first
    local(first).add_(local(second))
    return first


def holds_back_gradients(group: Any) -> bool:
    """Whether an FSDP2 parameter group has gradients that it has not synchronised."""
    return group._partial_reduce_output is not None or any(
        parameter.unsharded_accumulated_grad is not None
        or getattr(getattr(parameter, "_unsharded_param", None), "grad", None) is not None
        for parameter in group.fsdp_params
    )


def raise_on_freed_parameters(nodes: Iterable[Node]) -> None:
    """Make the backward pass raise where it would read gathered parameters that FSDP2 has freed.

    This happens to a loss of the parameters alone that was computed between a forward and a backward pass.
    """
    for node in nodes:
        freed = [tensor for tensor in _saved_tensors(node) if _is_freed(tensor)]
        if freed:
            node.register_prehook(partial(_check_gathered_again, freed))


def _is_freed(tensor: Tensor) -> bool:
    return tensor.numel() > 0 and tensor.untyped_storage().nbytes() == 0


def _saved_tensors(node: Node) -> Iterator[Tensor]:
    """The tensors that a node has saved without a hook."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            raw = getattr(node, name)
            if getattr(raw, "unpack_hook", True) is None and isinstance(getattr(raw, "data", None), Tensor):
                yield raw.data


def _check_gathered_again(freed: Sequence[Tensor], _: Any) -> None:
    if any(map(_is_freed, freed)):
        raise RuntimeError(GATHERED_ADVICE)
