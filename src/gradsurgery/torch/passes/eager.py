"""The two passes with PyTorch operations."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradsurgery.scalar import Scalar
from gradsurgery.torch import scalars
from gradsurgery.torch.blocks import Block, merge_small
from gradsurgery.torch.scalars import Pairs, compute_dtype, to_compute_dtype


class Eager:
    """The two passes with PyTorch operations; see ``Passes``.

    Args:
        blocks: at least one.
        pairs: the inner products to compute.
    """

    def __init__(self, blocks: Sequence[Block], pairs: Pairs) -> None:
        self._blocks, self._pairs = [(block, block.pieces()) for block in merge_small(blocks)], pairs

    def products(self) -> Sequence[Scalar]:
        """The inner products."""
        dots = []
        for _, pieces in self._blocks:
            for piece in pieces:
                vectors = to_compute_dtype(piece.vectors)
                dots += [torch.dot(vectors[a], vectors[b]) for a, b in self._pairs]
        row = torch.stack(dots).view(-1, len(self._pairs)).sum(0)
        return row.unbind() if scalars.is_async(row) else row.tolist()

    def combine(self, weights: Sequence[Scalar], keep: Scalar, take: Scalar, unscale: Scalar | None) -> None:
        """Write the direction and update the averages."""
        first, _ = self._blocks[0]
        *weights, keep, take, unscale = (_move(value, first) for value in (*weights, keep, take, unscale))
        for block, pieces in reversed(self._blocks):  # backwards: what was read last is still in the cache
            for piece in pieces:
                gradients = to_compute_dtype(piece.gradients)
                _combine(gradients, piece.averages, weights, keep, take, unscale)
                if gradients[-1] is not piece.gradients[-1]:
                    piece.gradients[-1].copy_(gradients[-1])
            block.scatter_back()


def _combine(
    gradients: Sequence[Tensor],
    averages: Sequence[Tensor],
    weights: Sequence[Scalar],
    keep: Scalar,
    take: Scalar,
    unscale: Scalar | None,
) -> None:
    *others, direction = gradients
    sources = others
    if len(averages) == len(gradients):
        sources = [*others, direction.clone()]  # the direction is written over the last gradient
    main_weight, *other_weights, last_weight = weights[: len(gradients)]
    if isinstance(main_weight, float) and main_weight == 1:  # as in most methods: one operation instead of two
        torch.add(others[0], direction, alpha=last_weight, out=direction)
    else:
        direction.mul_(last_weight)
        _add_multiple(direction, others[0], main_weight)
    for vector, weight in zip(others[1:], other_weights, strict=True):
        _add_multiple(direction, vector, weight)
    for average, weight in zip(averages, weights[len(gradients) :], strict=True):
        _add_multiple(direction, average, weight)
    for average, gradient in zip(averages, sources, strict=False):
        _update_average(average, gradient if unscale is None else gradient * unscale, keep, take)


def _add_multiple(total: Tensor, vector: Tensor, weight: Scalar) -> None:
    if isinstance(weight, Tensor):
        total.addcmul_(vector, weight)  # alpha= would wait for the device
    else:
        total.add_(vector, alpha=weight)


def _update_average(average: Tensor, gradient: Tensor, keep: Scalar, take: Scalar) -> None:
    if isinstance(take, Tensor):
        # where, not a product with take: 0 times NaN is NaN
        average.copy_(torch.where(take > 0, keep * average + take * gradient, average))
    elif take >= 0.5:
        torch.lerp(gradient, average, keep, out=average)  # average.lerp_(gradient, take) would round 1 - take
    elif take > 0:
        average.lerp_(gradient, take)


def _move(value: Scalar, block: Block) -> Scalar:
    """The scalar; a tensor is moved to the device and the compute type of a block."""
    return value.to(block.device, compute_dtype(block.dtype)) if isinstance(value, Tensor) else value
