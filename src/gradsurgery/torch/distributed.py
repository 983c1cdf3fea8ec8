"""How several processes share the parameters of a surgery: DistributedDataParallel, FSDP2, both or neither.

DDP synchronises only the first backward pass after a forward pass, and silently skips the others. So each step compares
the gradients of all processes, by their lengths and by a fingerprint.
"""

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.graph import Node
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel

from gradsurgery.torch.dtensor import GATHERED_ADVICE, holds_back_gradients, is_dtensor

DDP_ADVICE = (
    "give the losses as functions, surgery.backward(main_fn, aux_fn), so that each has a separate forward pass, "
    "synchronise the last micro-batch (not inside no_sync), and if a loss leaves parameters out, use "
    "DistributedDataParallel with find_unused_parameters=True, without static_graph and without no_sync"
)

DDP_ERRORS = (
    "mark a variable ready only once",
    "finished reduction in the prior iteration",
    "training graph has changed",
    "expect_autograd_hooks_",
    "still allreduced by DDP",
)
"""Parts of the messages that DDP raises when it cannot follow several backward passes."""


@dataclass(frozen=True)
class Setup:
    """What DistributedDataParallel and FSDP2 do with the parameters of a model."""

    outside: Sequence[Tensor] = ()
    """The parameters of the model that are not in the surgery."""
    ddp_modules: Sequence[DistributedDataParallel] = ()
    replicas: Sequence[dist.ProcessGroup] = ()
    """The process groups of the DDP modules."""
    sharded: bool = False
    """Whether any parameter of the surgery is a DTensor."""
    fsdp_groups: Sequence[Any] = ()
    """The FSDP2 parameter groups of the model."""

    @property
    def hooked(self) -> bool:
        """Whether DDP or FSDP2 writes to parameters or gradients in hooks of the backward pass."""
        return self._by_ddp or self.sharded

    @property
    def _by_ddp(self) -> bool:
        """Whether the parameters may belong to DDP, known or not; in a single process, too."""
        return bool(self.ddp_modules or self.replicas)

    def check_passes(self) -> None:
        """Raise if DDP cannot run several backward passes in a step."""
        if any(module._join_config.enable for module in self.ddp_modules):
            raise RuntimeError("surgery.backward() must run outside DDP.join(): give every process the same batches")

    def bypasses_ddp(self, nodes: Iterable[Node]) -> bool:
        """Whether a loss must be differentiated without DDP's hooks.

        A loss of the parameters alone has no forward pass through the module. With ``find_unused_parameters=True``, the
        hooks would mark every parameter that it reaches as used, and fail in the next pass.
        """
        if not any(module.find_unused_parameters for module in self.ddp_modules):
            return False
        return not any(type(node).__name__ == "_DDPSinkBackward" for node in nodes)

    def detach_from_bucket(self, gradient: Tensor | None) -> Tensor | None:
        """The gradient, copied if it may be a view of a DDP bucket, which the next backward pass overwrites."""
        return gradient.clone() if gradient is not None and self._by_ddp and gradient._is_view() else gradient

    def advice(self, error: RuntimeError) -> str | None:
        """What to do about an error of DDP or FSDP2, whose own advice is for a single loss."""
        if self._by_ddp and any(part in str(error) for part in DDP_ERRORS):
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


def find_setup(parameters: Sequence[Tensor], holder: Module | None, *, declared: bool) -> Setup:
    """How processes share these parameters, by the types of the modules that hold them.

    Args:
        parameters: the parameters of the surgery.
        holder: the module that holds them; None if it is not known.
        declared: whether the user has named it as ``model=``. If not, it may be the inside of a DDP module, so plain
            parameters are taken for replicas, whose gradients are compared in each step.
    """
    inside = {id(parameter) for parameter in parameters}
    outside = [] if holder is None else [item for item in holder.parameters() if id(item) not in inside]
    sharded = any(map(is_dtensor, parameters))
    if not dist.is_available() or not dist.is_initialized():
        return Setup(outside, sharded=sharded)
    modules = [] if holder is None else list(holder.modules())
    # Lightning runs a whole training step inside the forward pass of DDP
    active = DistributedDataParallel._get_active_ddp_module()  # type: ignore[no-untyped-call]
    if active is not None and any(id(parameter) in inside for parameter in active.parameters()):
        modules.append(active)
    ddp_modules = [module for module in modules if isinstance(module, DistributedDataParallel)]
    for module in ddp_modules:
        _check_communication_hooks(module)
    _refuse_fsdp1(modules)
    fsdp_groups = [group for module in modules for group in _fsdp_groups(module)]
    if dist.get_world_size() == 1:  # nothing to compare
        return Setup(outside, ddp_modules, sharded=sharded, fsdp_groups=fsdp_groups)
    plain = [parameter for parameter in parameters if parameter.requires_grad and not is_dtensor(parameter)]
    groups = list(dict.fromkeys(module.process_group for module in ddp_modules))
    if plain and not ddp_modules:
        if fsdp_groups:
            raise ValueError(
                f"fully_shard must cover all trainable parameters of the surgery; {len(plain)} are plain tensors, "
                "which FSDP2 does not synchronise: call fully_shard on the root module too"
            )
        if not declared:
            warnings.warn(
                f"{dist.get_world_size()} processes are running, and this Surgery sees no DistributedDataParallel: "
                "pass the wrapped model, Surgery(model, method) or Surgery(params, method, model=model); or, if each "
                "process trains a separate model, that one as model=",
                stacklevel=5,
            )
            groups = [dist.distributed_c10d._get_default_group()]
    return Setup(outside, ddp_modules, groups, sharded, fsdp_groups)


def _check_communication_hooks(module: DistributedDataParallel) -> None:
    """Raise if a communication hook keeps state from pass to pass, which would mix the gradients of the losses."""
    for hook, state in module._comm_hooks:
        if state is not None and not isinstance(state, dist.ProcessGroup):
            raise ValueError(
                f"DDP's communication hooks must be stateless, as a step has several backward passes; got "
                f"{getattr(hook, '__name__', hook)} with {type(state).__name__}"
            )


def _refuse_fsdp1(modules: Iterable[Module]) -> None:
    """Raise if FSDP1 shards any of the modules: its shards are plain tensors, which say nothing of the others."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    for module in modules:
        if fsdp is None or not isinstance(module, fsdp.FullyShardedDataParallel):
            continue
        if module.sharding_strategy.name != "NO_SHARD":
            raise ValueError(
                "Surgery works under DistributedDataParallel and FSDP2; got a model under FullyShardedDataParallel "
                "(FSDP1): shard it with fully_shard (FSDP2)"
            )


def _fsdp_groups(module: Module) -> Iterator[Any]:
    """The parameter groups of a module under ``fully_shard``."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is None or not isinstance(module, fsdp.FSDPModule):
        return
    state = module._get_fsdp_state()
    groups = getattr(state, "_fsdp_param_groups", None)
    yield from groups if groups is not None else filter(None, [state._fsdp_param_group])  # before torch 2.11


def replicas_agree(squares: Tensor, fingerprints: Tensor, groups: Sequence[dist.ProcessGroup]) -> Tensor:
    """For each gradient, whether all processes hold the same up to rounding.

    Args:
        squares: the squared length of each gradient.
        fingerprints: the fingerprint of each gradient.
        groups: the process groups to compare in.
    """
    squares, fingerprints = torch.nan_to_num(squares), torch.nan_to_num(fingerprints)
    agree = torch.ones_like(squares, dtype=torch.bool)
    for group in groups:
        extremes = torch.stack([squares, fingerprints, -squares, -fingerprints])
        dist.all_reduce(extremes, dist.ReduceOp.MAX, group=group)
        largest, smallest = extremes[:2], -extremes[2:]
        # not exactly equal: processes may sum in different orders
        tolerance = 1e-5 * torch.stack([largest[0], largest[0].sqrt()])
        agree &= (largest - smallest <= tolerance).all(0)
    return agree


WIDTH, GOLDEN_RATIO = 1 << 10, 0.6180339887


def fingerprint(vector: Tensor, index: int) -> Tensor:
    """The inner product of a flat vector with a fixed pseudo-random one, different for each index.

    It tells apart gradients of equal length. The fixed vector is an outer product of two short ones: multiples of the
    golden ratio modulo 1.
    """
    rows = vector.numel() // WIDTH
    body, rest = vector[: rows * WIDTH].view(rows, WIDTH), vector[rows * WIDTH :]
    across = torch.arange(WIDTH, dtype=vector.dtype, device=vector.device) * GOLDEN_RATIO % 1 - 0.5
    down = torch.arange(rows + 1, dtype=vector.dtype, device=vector.device) * GOLDEN_RATIO % 1 + 0.5
    sums = torch.mv(body, across, out=vector.new_empty(rows))  # out=: autocast would round what ``body @ across`` reads
    total = torch.dot(sums, down[:-1]) + torch.dot(rest, across[: rest.numel()]) * down[-1]
    return (0.5 + index * GOLDEN_RATIO % 1) * total
