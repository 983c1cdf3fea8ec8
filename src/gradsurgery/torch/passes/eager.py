"""The two passes by PyTorch's own operations."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from gradsurgery.scalar import Scalar
from gradsurgery.torch.blocks import Block, joined
from gradsurgery.torch.scalars import Numbers, Pairs, apart, wide, widened


class Eager:
    """The two passes over blocks of one kind; see ``Passes``.

    Args:
        blocks: at least one.
        pairs: the inner products to form.
    """

    def __init__(self, blocks: Sequence[Block], pairs: Pairs) -> None:
        self._blocks, self._pairs = [(block, block.pieces()) for block in joined(blocks)], pairs

    def products(self) -> Sequence[Scalar]:
        """The inner products."""
        dots = []
        for _, pieces in self._blocks:
            for piece in pieces:
                vectors = widened(piece.vectors)
                dots += [torch.dot(vectors[a], vectors[b]) for a, b in self._pairs]
        row = torch.stack(dots).view(-1, len(self._pairs)).sum(0)
        return row.unbind() if apart(row.device) else row.tolist()

    def finish(self, weights: Sequence[Scalar], keep: Scalar, take: Scalar, unscale: Scalar | None) -> None:
        """Write the direction and move the averages."""
        first, _ = self._blocks[0]
        numbers = Numbers(first.device, wide(first.dtype))
        form = partial(
            _form_unseen if apart(first.device) else _form,
            numbers.scalars(weights),
            numbers.scalar(keep),
            numbers.scalar(take),
            None if unscale is None else numbers.scalar(unscale),
        )
        for block, pieces in reversed(self._blocks):  # backwards, as what was read last is still in the cache
            for piece in pieces:
                gradients = widened(piece.gradients)
                form(gradients, piece.averages)
                if gradients[-1] is not piece.gradients[-1]:
                    piece.gradients[-1].copy_(gradients[-1])
            block.hand_back()


def _form(
    weights: Sequence[float],
    keep: float,
    take: float,
    unscale: float | None,
    gradients: Sequence[Tensor],
    averages: Sequence[Tensor],
) -> None:
    """Write the direction over the last gradient and move the averages, by numbers that one may look at."""
    *others, direction = gradients
    *before, own = weights[: len(gradients)]
    sources = _sources(gradients, averages)
    if before[0] == 1:  # main's, as in most methods: one operation in place of two
        torch.add(others[0], direction, alpha=own, out=direction)
    else:
        direction.mul_(own).add_(others[0], alpha=before[0])
    for vector, weight in zip([*others[1:], *averages], [*before[1:], *weights[len(gradients) :]], strict=True):
        direction.add_(vector, alpha=weight)
    if take > 0:
        for average, gradient in zip(averages, sources, strict=False):
            unscaled = gradient if unscale is None else gradient * unscale
            if take < 0.5:
                average.lerp_(unscaled, take)
            else:  # lerp would round 1 - take
                torch.lerp(unscaled, average, keep, out=average)


def _form_unseen(
    weights: Sequence[Tensor],
    keep: Tensor,
    take: Tensor,
    unscale: Tensor | None,
    gradients: Sequence[Tensor],
    averages: Sequence[Tensor],
) -> None:
    """The same by numbers on an accelerator, without waiting for it."""
    *others, direction = gradients
    *before, own = weights[: len(gradients)]
    sources = _sources(gradients, averages)
    direction.mul_(own)
    for vector, weight in zip([*others, *averages], [*before, *weights[len(gradients) :]], strict=True):
        direction.addcmul_(vector, weight)
    for average, gradient in zip(averages, sources, strict=False):
        unscaled = gradient if unscale is None else gradient * unscale
        # where, not a product with take: 0 times NaN is NaN
        average.copy_(torch.where(take > 0, keep * average + take * unscaled, average))


def _sources(gradients: Sequence[Tensor], averages: Sequence[Tensor]) -> list[Tensor]:
    """What the averages are of; if the last gradient has one, by a copy, as the direction is written over it."""
    *others, last = gradients
    return [*others, last.clone()] if len(averages) == len(gradients) else others
