"""Ways to make a model parallel, right and wrong."""

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

from tests.torch_front.workers import Net


def sharded(
    model: nn.Module, shape: tuple[int, ...] = (2,), names: tuple[str, ...] = ("shard",), **options
) -> nn.Module:
    return fully_shard(model, mesh=init_device_mesh("cpu", shape, mesh_dim_names=names), **options)


def sharded_by_layer(model: Net) -> nn.Module:
    """As usual: each layer separately, and the heads with the root."""
    fully_shard(model.body[0])
    fully_shard(model.body[2])
    return fully_shard(model)


def sharded_over_two_meshes(model: Net) -> nn.Module:
    """One layer replicated, the others sharded: inner products are summed over the shards of those only."""
    sharded(model.body[0], (2, 1), ("replicate", "shard"))
    return sharded(model, (1, 2), ("replicate", "shard"))


def sharded_with_unsynchronised_root(model: Net) -> nn.Module:
    sharded_by_layer(model).set_requires_gradient_sync(False, recurse=False)
    return model


def replicated_without_all_reduce(model: Net) -> nn.Module:
    sharded(model, (2, 1), ("replicate", "shard")).set_requires_all_reduce(False)
    return model


def sharded_without_root(model: Net) -> nn.Module:
    fully_shard(model.body[0])
    fully_shard(model.body[2])
    return model


def replicated_with_powersgd(model: Net) -> nn.Module:
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(powerSGD_hook.PowerSGDState(None), powerSGD_hook.powerSGD_hook)
    return wrapped


def replicated_with_compression(model: Net) -> nn.Module:
    """A communication hook without state."""
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(None, default_hooks.allreduce_hook)
    return wrapped


def sharded_by_fsdp1(model: Net, *, use_orig_params: bool) -> nn.Module:
    return FullyShardedDataParallel(model, use_orig_params=use_orig_params, device_id=torch.device("cpu"))
