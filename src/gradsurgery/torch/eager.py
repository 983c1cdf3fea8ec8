"""The two passes by PyTorch's own operations."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradsurgery.torch.blocks import Block, Joined, joined
from gradsurgery.torch.number import Pairs, apart, wide, widened


class Eager:
    """The two passes over blocks of one kind; see ``Passes``.

    Args:
        blocks: at least one.
        pairs: the inner products to form.
    """

    def __init__(self, blocks: Sequence[Block], pairs: Pairs) -> None:
        self._blocks, self._pairs = joined(blocks), pairs

    def products(self) -> Tensor:
        """The inner products."""
        dots = []
        for block in self._blocks:
            for piece in block.pieces():
                vectors = widened(piece.vectors)
                dots += [torch.dot(vectors[a], vectors[b]) for a, b in self._pairs]
        return torch.stack(dots).view(-1, len(self._pairs)).sum(0)

    def finish(self, weights: Tensor, rho: Tensor, scale: Tensor | None) -> None:
        """Write the direction and move the averages."""
        device, dtype = self._blocks[0].kind
        weights, rho = weights.to(device, wide(dtype)), rho.to(device, wide(dtype))
        moving = apart(device) or bool(rho > 0)
        for block in reversed(self._blocks):  # backwards, as what was read last is still in the cache
            for piece in block.pieces():
                _finish(piece, weights.unbind(), rho, scale, moving)
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
