"""Inner products of gradients with fixed vectors: they tell gradients apart that have the same length."""

import torch
from torch import Tensor

from gradsurgery.torch.blocks import Block, flat
from gradsurgery.torch.scalars import widened

WIDTH, GOLDEN = 1 << 10, 0.6180339887
"""Of the vector without pattern: multiples of the golden ratio modulo 1, outer product of a row and a column."""


def probes(block: Block, index: int) -> Tensor:
    """For each gradient of a block, its inner product with a fixed vector without pattern, other for each index."""
    parts = []
    for number, piece in enumerate(flat(block).pieces()):
        weight = 0.5 + (index + 7919 * number) * GOLDEN % 1
        parts.append(weight * torch.stack([_probe(vector) for vector in widened(piece.gradients)]))
    return torch.stack(parts).sum(0)


def _probe(vector: Tensor) -> Tensor:
    rows, width = vector.numel() // WIDTH, WIDTH
    body, rest = vector[: rows * width].view(rows, width), vector[rows * width :]
    across = torch.arange(width, dtype=vector.dtype, device=vector.device) * GOLDEN % 1 - 0.5
    down = torch.arange(rows + 1, dtype=vector.dtype, device=vector.device) * GOLDEN % 1 + 0.5
    return torch.dot(body @ across, down[:-1]) + torch.dot(rest, across[: rest.numel()]) * down[-1]
