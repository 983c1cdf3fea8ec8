"""Parameters replicated by DistributedDataParallel: every process must hold the same gradients.

DDP synchronises only the first backward pass after a forward pass, and silently skips the others. So each step compares
the gradients of all processes, by their lengths and by a fingerprint.
"""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from gradsurgery.torch.passes.blocks import Block, cut, flatten
from gradsurgery.torch.scalars import to_compute_dtype

DDP_ADVICE = (
    "give the losses as functions, surgery.backward(main_fn, aux_fn), so that each has a forward pass of its own, "
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

WIDTH, GOLDEN_RATIO = 1 << 10, 0.6180339887


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


def fingerprint(block: Block, index: int) -> Tensor:
    """For each gradient of a block, its inner product with a fixed pseudo-random vector, different for each index.

    It tells apart gradients of equal length.
    """
    parts = []
    for position, piece in enumerate(cut(flatten(block))):
        weight = 0.5 + (index + 7919 * position) * GOLDEN_RATIO % 1
        parts.append(weight * torch.stack([_fingerprint(vector) for vector in to_compute_dtype(piece.gradients)]))
    return torch.stack(parts).sum(0)


def _fingerprint(vector: Tensor) -> Tensor:
    """The fixed vector is an outer product of two short ones: multiples of the golden ratio modulo 1."""
    rows = vector.numel() // WIDTH
    body, rest = vector[: rows * WIDTH].view(rows, WIDTH), vector[rows * WIDTH :]
    across = torch.arange(WIDTH, dtype=vector.dtype, device=vector.device) * GOLDEN_RATIO % 1 - 0.5
    down = torch.arange(rows + 1, dtype=vector.dtype, device=vector.device) * GOLDEN_RATIO % 1 + 0.5
    return torch.dot(body @ across, down[:-1]) + torch.dot(rest, across[: rest.numel()]) * down[-1]
