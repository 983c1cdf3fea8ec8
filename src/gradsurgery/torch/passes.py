"""The two passes over memory: inner products, then the direction and the averages in one go.

Sums run in float32 at least.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from gradsurgery.torch.blocks import SMALL, Block, Joined, joined
from gradsurgery.torch.kernels import Kernels, grouped
from gradsurgery.torch.number import Pairs, apart, wide, widened

WIDTH, GOLDEN = 1 << 10, 0.6180339887
"""Of the vector without pattern: multiples of the golden ratio modulo 1, outer product of a row and a column."""


class Passes:
    """The two passes over the blocks of a step, by PyTorch's own operations or, where it is worth it, by kernels.

    Args:
        blocks: at least one; what is small is joined.
        kernels: compiled kernels, if there are any.
    """

    def __init__(self, blocks: Iterable[Block], kernels: Kernels | None) -> None:
        self._blocks = joined(blocks)
        self._kernels = kernels
        large = [block for block in self._blocks if block.size >= SMALL] if kernels else []
        self._groups = grouped(large)
        self._eager = [block for block in self._blocks if block.size < SMALL] if kernels else self._blocks

    def products(self, pairs: Pairs) -> list[Tensor]:
        """The inner products of the vectors, as 1-d tensors to be added."""
        found = [self._kernels.products(group, pairs) for group in self._groups] if self._kernels else []
        dots: dict[object, list[Tensor]] = {}
        for block in self._eager:
            some = dots.setdefault(block.kind, [])
            for piece in block.pieces():
                vectors = widened(piece.vectors)
                some += [torch.dot(vectors[a], vectors[b]) for a, b in pairs]
        return [*found, *(torch.stack(some).view(-1, len(pairs)).sum(0) for some in dots.values())]

    def finish(self, weights: Tensor, rho: Tensor, scale: Tensor | None) -> None:
        """Write the direction over the last gradient and move the averages, both in place.

            direction = sum of weights * vectors,   average <- (1 - rho) average + rho gradient / scale   if rho > 0

        Args:
            weights: one for each gradient and average.
            rho: the speed of the averages, 0 in an unsound step.
            scale: what the gradients are multiplied by, if they are.
        """
        count = len(self._blocks[0].gradients)
        # backwards, as what was read last is still in the cache
        if self._kernels:
            for group in reversed(self._groups):
                self._kernels.finish(group, count, weights, rho, rho.new_ones(()) if scale is None else 1 / scale)
        for block in reversed(self._eager):
            here = [one.to(block.device, wide(block.gradients[0].dtype)) for one in (weights, rho)]
            moving = apart(block.device) or bool(here[1] > 0)
            for piece in block.pieces():
                _finish(piece, here[0].unbind(), here[1], scale, moving)
        for block in self._blocks:
            if isinstance(block, Joined):
                block.hand_back()


def _finish(block: Block, weights: Sequence[Tensor], rho: Tensor, scale: Tensor | None, moving: bool) -> None:
    gradients, averages = widened(block.gradients), block.averages
    direction = gradients[-1].mul_(weights[len(gradients) - 1])
    for vector, weight in zip([*gradients, *averages], weights, strict=True):
        if vector is not direction:
            direction.addcmul_(vector, weight)
    for average, gradient in zip(averages, gradients, strict=False):
        unscaled = gradient if scale is None else gradient / scale.to(gradient.device)
        if apart(block.device):
            # where, not a product with rho: 0 times NaN is NaN
            average.copy_(torch.where(rho > 0, torch.lerp(average, unscaled, rho), average))
        elif moving:
            average.lerp_(unscaled, rho)
    if direction is not block.gradients[-1]:
        block.gradients[-1].copy_(direction)


def probes(block: Block, index: int) -> Tensor:
    """For each gradient of a block, its inner product with a fixed vector without pattern, other for each index.

    It tells gradients apart that have the same length.
    """
    parts = []
    for number, piece in enumerate(block.pieces()):
        weight = 0.5 + (index + 7919 * number) * GOLDEN % 1
        parts.append(weight * torch.stack([_probe(vector) for vector in widened(piece.gradients)]))
    return torch.stack(parts).sum(0)


def _probe(vector: Tensor) -> Tensor:
    rows, width = vector.numel() // WIDTH, WIDTH
    body, rest = vector[: rows * width].view(rows, width), vector[rows * width :]
    across = torch.arange(width, dtype=vector.dtype, device=vector.device) * GOLDEN % 1 - 0.5
    down = torch.arange(rows + 1, dtype=vector.dtype, device=vector.device) * GOLDEN % 1 + 0.5
    return torch.dot(body @ across, down[:-1]) + torch.dot(rest, across[: rest.numel()]) * down[-1]
