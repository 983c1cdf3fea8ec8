"""The two passes with PyTorch operations, for any device.

They move as few words as separate operations can: a squared length is that of a norm, which reads its vector once;
main's weight is 1 in most methods and costs nothing then; an average is updated by one ``lerp``.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradsurgery.scalar import Scalar
from gradsurgery.torch import scalars
from gradsurgery.torch.passes.blocks import Block, make_pieces
from gradsurgery.torch.passes.rounding import round_to_bfloat16
from gradsurgery.torch.scalars import Pairs, compute_dtype


class Eager:
    """The two passes with PyTorch operations; see ``Passes``.

    Args:
        blocks: at least one.
        pairs: the inner products to compute.
    """

    def __init__(self, blocks: Sequence[Block], pairs: Pairs) -> None:
        self._pieces, self._pairs = make_pieces(blocks), pairs
        self._device, self._dtype = blocks[0].device, compute_dtype(blocks[0].dtype)
        self._is_async = scalars.is_async(blocks[0].gradients[0])

    def products(self) -> Sequence[Scalar]:
        """The inner products."""
        lengths, dots = [], []
        # a norm reads its vector once, but on the CPU it loses digits, and there the cache serves the second read
        by_norm = [a == b and self._is_async for a, b in self._pairs]
        factors = {k for pair, norm in zip(self._pairs, by_norm, strict=True) if not norm for k in pair}
        for piece in self._pieces:
            vectors = [
                vector.to(self._dtype) if vector.dtype != self._dtype and k in factors else vector
                for k, vector in enumerate(piece.vectors)
            ]
            for (a, b), norm in zip(self._pairs, by_norm, strict=True):
                if norm:
                    lengths.append(torch.linalg.vector_norm(vectors[a], dtype=self._dtype))
                else:
                    dots.append(torch.dot(vectors[a], vectors[b]))
        squares = iter(_sum(lengths, len(self._pieces), square=True))
        products = iter(_sum(dots, len(self._pieces)))
        return [next(squares if norm else products) for norm in by_norm]

    def combine(
        self, weights: Sequence[Scalar], averaging: Sequence[tuple[Scalar, Scalar]], step: int, *, scaled: bool
    ) -> None:
        """Write the direction and update the averages."""
        weights = [self._move(weight) for weight in weights]
        cohorts = [_keep_if_untaken(self._move(keep), self._move(take)) for keep, take in averaging]
        for piece in reversed(self._pieces):  # backwards: what was read last is still in the cache
            gradients = self._widen(piece.gradients)
            averages = self._widen(piece.averages)
            # the direction is written over the last gradient
            sources = [*gradients[:-1], gradients[-1].clone()] if len(averages) == len(gradients) else gradients
            _write_direction(gradients, averages, weights)
            for level, (average, source) in enumerate(zip(averages, sources, strict=False)):
                _update_average(average, source, *cohorts[piece.cohort], scaled=scaled)
                if average is not piece.averages[level]:
                    piece.averages[level].copy_(round_to_bfloat16(average.float(), step, level, piece.origins))
            if gradients[-1] is not piece.gradients[-1]:
                piece.gradients[-1].copy_(gradients[-1])
            piece.copy_back()

    def _widen(self, vectors: Sequence[Tensor]) -> Sequence[Tensor]:
        """The vectors in the type to compute in; themselves if they have it."""
        if not vectors or vectors[0].dtype == self._dtype:
            return vectors
        return [vector.to(self._dtype) for vector in vectors]

    def _move(self, value: Scalar) -> Scalar:
        """The scalar; a tensor is moved to the device and the type of the pieces."""
        return value.to(self._device, self._dtype) if isinstance(value, Tensor) else value


def _sum(values: list[Tensor], pieces: int, *, square: bool = False) -> Sequence[Scalar]:
    """The sum over pieces of a few values, or of their squares, for each piece."""
    if not values:
        return []
    table = torch.stack(values).view(pieces, -1)
    row = (table.square() if square else table).sum(0)
    return row.unbind() if scalars.is_async(row) else row.tolist()


def _write_direction(gradients: Sequence[Tensor], averages: Sequence[Tensor], weights: Sequence[Scalar]) -> None:
    """Write the sum of weights * vectors over the last gradient."""
    main, *others, direction = gradients
    main_weight, *other_weights, last_weight = weights[: len(gradients)]
    if isinstance(main_weight, float) and main_weight == 1:  # as in most methods: one operation instead of two
        _add_multiple(main, direction, last_weight, out=direction)
    else:
        direction.mul_(last_weight)
        _add_multiple(direction, main, main_weight, out=direction)
    for vector, weight in zip([*others, *averages], [*other_weights, *weights[len(gradients) :]], strict=True):
        if isinstance(weight, Tensor) or weight != 0:
            _add_multiple(direction, vector, weight, out=direction)


def _add_multiple(total: Tensor, vector: Tensor, weight: Scalar, out: Tensor) -> None:
    if isinstance(weight, Tensor):
        torch.addcmul(total, vector, weight, out=out)  # alpha= would wait for the device
    else:
        torch.add(total, vector, alpha=weight, out=out)


def _keep_if_untaken(keep: Scalar, take: Scalar) -> tuple[Scalar, Scalar]:
    """``keep`` and ``take``, with keep = 1 where take = 0."""
    return (torch.where(take > 0, keep, 1.0), take) if isinstance(take, Tensor) else (keep, take)


def _update_average(average: Tensor, gradient: Tensor, keep: Scalar, take: Scalar, *, scaled: bool) -> None:
    if isinstance(take, Tensor):
        gradient = torch.nan_to_num(gradient, nan=0.0, posinf=0.0, neginf=0.0)  # 0 times NaN is NaN
    elif take == 0:
        return
    if not scaled:
        # by keep: 1 - keep is exact where lerp forms it, and 1 - take would not be
        torch.lerp(gradient, average, keep, out=average)
    elif isinstance(take, Tensor):
        average.mul_(keep).addcmul_(gradient, take)
    else:
        average.mul_(keep).add_(gradient, alpha=take)
