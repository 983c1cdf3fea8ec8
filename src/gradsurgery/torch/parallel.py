"""How several processes share the parameters of a surgery: DistributedDataParallel, FSDP2, both or neither."""

import gc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.autograd.graph import Node
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel

from gradsurgery.torch.ddp import DDP_ADVICE, DDP_ERRORS
from gradsurgery.torch.dtensor import GATHERED_ADVICE, holds_back_gradients, is_dtensor


@dataclass(frozen=True)
class ParallelSetup:
    """What DistributedDataParallel and FSDP2 do with a list of parameters."""

    replicas: Sequence[dist.ProcessGroup] = ()
    """The process groups of the DistributedDataParallel modules that hold any of them."""
    finds_unused: bool = False
    """Whether one of those modules has ``find_unused_parameters=True``."""
    sharded: bool = False
    """Whether any parameter is a DTensor."""
    fsdp_groups: Sequence[Any] = ()
    """The FSDP2 parameter groups that hold any of them."""

    @property
    def hooked(self) -> bool:
        """Whether gradients pass through hooks, which do not run in a backward pass restricted to some inputs."""
        return bool(self.replicas) or self.sharded

    def bypasses_ddp(self, nodes: Iterable[Node]) -> bool:
        """Whether a loss must be differentiated without DDP's hooks.

        A loss of the parameters alone has no forward pass through the module. With ``find_unused_parameters=True``, the
        hooks would mark every parameter that it reaches as used, and fail in the next pass.
        """
        return self.finds_unused and not any(type(node).__name__ == "_DDPSinkBackward" for node in nodes)

    def advice(self, error: RuntimeError) -> str | None:
        """What to do about an error of DDP or FSDP2, whose own advice is for a single loss."""
        if self.replicas and any(part in str(error) for part in DDP_ERRORS):
            return f"DistributedDataParallel cannot follow these backward passes; {DDP_ADVICE}"
        if self.sharded and "mixed torch.Tensor and DTensor" in str(error):
            return GATHERED_ADVICE
        return None

    def check_synchronised(self, name: str) -> None:
        """Raise if FSDP2 has not synchronised the gradients of a loss: it would add them to the next one's."""
        if any(map(holds_back_gradients, self.fsdp_groups)):
            raise RuntimeError(
                f"FSDP2 has not synchronised the gradients of the {name} loss: give the losses as functions, "
                "surgery.backward(main_fn, aux_fn), and synchronise gradients in every backward pass, "
                "model.set_requires_gradient_sync(True)"
            )


def find_parallel_setup(parameters: Sequence[Tensor]) -> ParallelSetup:
    """How several processes share these parameters; raises if it is by FSDP1."""
    if not dist.is_initialized():
        return ParallelSetup()
    parameter_ids = {id(parameter) for parameter in parameters}
    # a parameter does not know the modules that hold it, so search all live objects, once
    objects = gc.get_objects()
    _refuse_fsdp1([item for item in objects if type(item).__name__ == "FullyShardedDataParallel"], parameter_ids)
    modules = [item for item in objects if issubclass(type(item), DistributedDataParallel)]
    modules = [module for module in modules if _holds_any(module, parameter_ids)]
    groups = [item for item in objects if type(item).__name__ == "FSDPParamGroup"]
    replicas: list[dist.ProcessGroup] = []
    for module in modules:
        if module.process_group not in replicas:
            replicas.append(module.process_group)
    return ParallelSetup(
        replicas,
        finds_unused=any(module.find_unused_parameters for module in modules),
        sharded=any(is_dtensor(parameter) for parameter in parameters),
        fsdp_groups=[
            group for group in groups if any(id(item.sharded_param) in parameter_ids for item in group.fsdp_params)
        ],
    )


def _refuse_fsdp1(modules: Iterable[Any], parameter_ids: set[int]) -> None:
    """Raise if FSDP1 shards any of the parameters: its shards are plain tensors, which say nothing of the others."""
    if any(module.sharding_strategy.name != "NO_SHARD" and _holds_any(module, parameter_ids) for module in modules):
        raise ValueError(
            "Surgery works under DistributedDataParallel and FSDP2, but FullyShardedDataParallel (FSDP1) shards these "
            "parameters: shard the model with fully_shard (FSDP2)"
        )


def _holds_any(module: Module, parameter_ids: set[int]) -> bool:
    return any(id(parameter) in parameter_ids for parameter in module.parameters())
