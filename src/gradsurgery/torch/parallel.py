"""Several processes: gradients that lie in shards, and gradients that every process must hold alike.

Under FSDP2 a parameter is a DTensor, of which a process holds a shard: inner products are summed over the shards. Under
DistributedDataParallel every process holds all, once the gradients have been synchronised; DDP does so in the first
backward pass after a forward pass only, and says nothing when it does not. So we look.
"""

import gc
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

Shards = tuple[object, tuple[int, ...]]
"""A device mesh and those of its dimensions that a tensor is sharded over."""


def distributed(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether a tensor is a DTensor; looked up, not imported, which takes a while and which few need."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def local(tensor: Tensor) -> Tensor:
    """What this process holds of a tensor, sharing its memory."""
    return tensor.to_local() if distributed(tensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """A tensor as every process would have it alone; all must call this."""
    return tensor.full_tensor() if distributed(tensor) else tensor


def shards(tensor: Tensor) -> Shards | None:
    """Where the other shards of a tensor are; None if this process holds it all."""
    if not distributed(tensor):
        return None
    dimensions = tuple(index for index, placement in enumerate(tensor.placements) if placement.is_shard())
    return (tensor.device_mesh, dimensions) if dimensions else None


def sum_over_shards(partial: Tensor, where: Shards | None) -> Tensor:
    """The sum of what each process with a shard has."""
    if where is not None:
        mesh, dimensions = where
        for dimension in dimensions:
            dist.all_reduce(partial, group=mesh.get_group(dimension))  # type: ignore[attr-defined]
    return partial


def replica_groups(parameters: Iterable[Tensor]) -> list[dist.ProcessGroup]:
    """The process groups of the DistributedDataParallel modules that hold one of these parameters."""
    if not dist.is_initialized():
        return []
    ours = {id(parameter) for parameter in parameters}
    # nothing on a parameter tells that DDP holds it, so look through what is alive, once
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), DistributedDataParallel)]
    groups = [module.process_group for module in modules if any(id(one) in ours for one in module.parameters())]
    return [group for index, group in enumerate(groups) if group not in groups[:index]]


def agreed(squares: Tensor, groups: Sequence[dist.ProcessGroup]) -> Tensor:
    """For each gradient, by its squared length, whether all processes hold the same."""
    finite = torch.nan_to_num(squares)
    same = torch.ones_like(squares, dtype=torch.bool)
    for group in groups:
        extremes = torch.stack([finite, -finite])
        dist.all_reduce(extremes, dist.ReduceOp.MAX, group=group)
        same &= extremes[0] == -extremes[1]
    return same
