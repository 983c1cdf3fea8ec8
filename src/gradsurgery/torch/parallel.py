"""Several processes: gradients that lie in shards, and gradients that every process must hold alike.

Under FSDP2 a parameter is a DTensor, of which a process holds a shard: inner products are summed over the shards. Under
DistributedDataParallel every process holds all, once the gradients have been synchronised; DDP does so in the first
backward pass after a forward pass only, and says nothing when it does not. So we look.
"""

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.graph import Node
from torch.nn import Parameter
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

WAY = (
    "give the losses as functions, surgery.backward(main_fn, aux_fn), so that each makes a forward pass of its own, "
    "leave no_sync before the last micro-batch, and if a loss leaves parameters out, give DistributedDataParallel "
    "find_unused_parameters=True, not static_graph, and do without no_sync"
)
"""What works under DistributedDataParallel."""

Shards = tuple[object, tuple[int, ...]]
"""A device mesh and those of its dimensions that a tensor is sharded over."""


def distributed(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether a tensor is a DTensor; looked up, not imported, which takes a while and which few need."""
    if type(tensor) in (Tensor, Parameter):
        return False
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


def placed_like(parameter: Tensor, gradient: Tensor) -> Tensor:
    """The gradient, sharded as its parameter is: that of a closed form may come whole, or as parts of a sum."""
    if distributed(parameter) and distributed(gradient) and gradient.placements != parameter.placements:
        return gradient.redistribute(parameter.device_mesh, parameter.placements)
    return gradient


def added(before: Tensor | None, gradient: Tensor | None) -> Tensor | None:
    """The sum of two gradients that lie alike, in the memory of the first."""
    if before is None or gradient is None:
        return gradient if before is None else before
    local(before).add_(local(gradient))
    return before


@dataclass(frozen=True)
class Wrapping:
    """What DistributedDataParallel and FSDP2 do with some parameters."""

    replicas: list[dist.ProcessGroup]
    """The process groups of the DistributedDataParallel modules that hold one of them."""
    finds_unused: bool
    """Whether one of those modules looks for unused parameters."""
    sharded: bool
    """Whether one of the parameters is sharded."""
    groups: list[Any]
    """FSDP2's groups of parameters."""

    @property
    def hooked(self) -> bool:
        """Whether gradients pass through hooks, which a backward pass to chosen inputs would go around."""
        return bool(self.replicas) or self.sharded

    def goes_around(self, nodes: Iterable[Node]) -> bool:
        """Whether a loss has no part in a forward pass of a module that looks for unused parameters.

        DDP's hooks would note all that the loss reaches as used, and fail in the next pass.
        """
        return self.finds_unused and not any(type(node).__name__ == "_DDPSinkBackward" for node in nodes)

    def advise(self, error: RuntimeError) -> None:
        """Raise the advice of DDP and FSDP2, which is for one loss, in our terms."""
        if self.replicas and any(sign in str(error) for sign in _DDP):
            raise RuntimeError(f"DistributedDataParallel cannot follow these backward passes; {WAY}") from error
        if self.sharded and "mixed torch.Tensor and DTensor" in str(error):
            raise RuntimeError(_GATHERED) from error

    def check(self, name: str) -> None:
        """Raise if FSDP2 holds gradients back: it would add them to those of the next loss."""
        if any(_holds(group) for group in self.groups):
            raise RuntimeError(
                f"FSDP2 has not synchronised the gradients of the {name} loss: give the losses as functions, "
                "surgery.backward(main_fn, aux_fn), and have gradients synchronised in every backward pass, "
                "model.set_requires_gradient_sync(True)"
            )


_GATHERED = (
    "a loss is of parameters as FSDP2 has gathered them for a forward pass: give the losses as functions, "
    "surgery.backward(main_fn, aux_fn), so that one of the parameters themselves is computed after the passes before it"
)
_DDP = (
    "mark a variable ready only once",
    "finished reduction in the prior iteration",
    "training graph has changed",
    "expect_autograd_hooks_",
    "still allreduced by DDP",
)


def _holds(group: Any) -> bool:
    return group._partial_reduce_output is not None or any(
        one.unsharded_accumulated_grad is not None
        or getattr(getattr(one, "_unsharded_param", None), "grad", None) is not None
        for one in group.fsdp_params
    )


def wrapping(parameters: Sequence[Tensor]) -> Wrapping:
    """How these parameters are wrapped."""
    if not dist.is_initialized():
        return Wrapping([], False, False, [])
    ours = {id(parameter) for parameter in parameters}
    # nothing on a parameter tells that DDP or FSDP2 holds it, so look through what is alive, once
    alive = gc.get_objects()
    modules = [thing for thing in alive if issubclass(type(thing), DistributedDataParallel)]
    modules = [module for module in modules if any(id(one) in ours for one in module.parameters())]
    groups = [module.process_group for module in modules]
    shardings = [thing for thing in alive if type(thing).__name__ == "FSDPParamGroup"]
    return Wrapping(
        [group for index, group in enumerate(groups) if group not in groups[:index]],
        any(module.find_unused_parameters for module in modules),
        any(distributed(parameter) for parameter in parameters),
        [group for group in shardings if any(id(one.sharded_param) in ours for one in group.fsdp_params)],
    )


def refuse_freed(nodes: Iterable[Node]) -> None:
    """Have the backward pass raise where it would read parameters that FSDP2 has freed, and has not gathered again.

    That happens to a closed form of the parameters as they are after a forward pass.
    """
    for node in nodes:
        freed = [tensor for tensor in _saved(node) if tensor.numel() and not tensor.untyped_storage().nbytes()]
        if freed:
            node.register_prehook(partial(_check_freed, freed))


def _saved(node: Node) -> Iterator[Tensor]:
    """The tensors that a node has saved as they are."""
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            raw = getattr(node, name)
            if getattr(raw, "unpack_hook", True) is None and isinstance(getattr(raw, "data", None), Tensor):
                yield raw.data


def _check_freed(freed: Sequence[Tensor], _: Any) -> None:
    if any(not tensor.untyped_storage().nbytes() for tensor in freed):
        raise RuntimeError(_GATHERED)


def agreed(squares: Tensor, probes: Tensor, groups: Sequence[dist.ProcessGroup]) -> Tensor:
    """For each gradient, by its squared length and a probe, whether all processes hold the same up to rounding."""
    squares, probes = torch.nan_to_num(squares), torch.nan_to_num(probes)
    same = torch.ones_like(squares, dtype=torch.bool)
    for group in groups:
        extremes = torch.stack([squares, probes, -squares, -probes])
        dist.all_reduce(extremes, dist.ReduceOp.MAX, group=group)
        largest, smallest = extremes[:2], -extremes[2:]
        # up to rounding: processes may add up in another order
        room = 1e-5 * torch.stack([largest[0], largest[0].sqrt()])
        same &= (largest - smallest <= room).all(0)
    return same
