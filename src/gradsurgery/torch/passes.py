"""The two passes over memory: inner products, then the direction and the averages in one go.

Both work on blocks. A block is one parameter's vectors, flat and aligned element by element: its gradients, main first,
then its averages. Sums run in float32 at least.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

Pairs = tuple[tuple[int, int], ...]
"""Inner products to form, by the places of their factors among the vectors of a block."""

PIECE = 1 << 17
"""On a CPU, the eager passes go through a block in pieces of so many elements, which its cache can hold: a piece is
read from memory once for all that is done with it. (A dot of many more would lose digits, too.)"""

WIDTH, GOLDEN = 1 << 10, 0.6180339887
"""Of the vector without pattern: multiples of the golden ratio modulo 1, outer product of a row and a column."""

SMALL = 1 << 12
"""Blocks of fewer elements are not worth the call of a compiled kernel."""


@dataclass(frozen=True)
class Block:
    """One parameter's gradients and averages, as 1-d tensors of one length on one device."""

    gradients: list[Tensor]
    averages: list[Tensor]

    @property
    def device(self) -> torch.device:
        """Where the vectors lie."""
        return self.gradients[0].device

    @property
    def size(self) -> int:
        """Elements in each vector."""
        return self.gradients[0].numel()

    def pieces(self) -> "Iterator[Block]":
        """The block's pieces on a CPU, else the block itself."""
        if self.device.type != "cpu":
            yield self
            return
        count = len(self.gradients)
        for parts in zip(*(torch.split(one, PIECE) for one in [*self.gradients, *self.averages]), strict=True):
            yield Block(list(parts[:count]), list(parts[count:]))


class Passes:
    """The two passes, eager or compiled: then one kernel each, for blocks of any length."""

    def __init__(self, *, compile: bool) -> None:  # noqa: A002
        self._compiled_products = torch.compile(_fused_products, dynamic=True) if compile else None
        self._compiled_finish = torch.compile(_finish, dynamic=True) if compile else None

    def products(self, block: Block, pairs: Pairs) -> Tensor:
        """The inner products of a block's vectors, as a 1-d tensor."""
        if self._compiled_products is not None and block.size >= SMALL:
            return self._compiled_products(_bare([*block.gradients, *block.averages]), pairs)
        parts = [_products([*piece.gradients, *piece.averages], pairs) for piece in block.pieces()]
        return torch.stack(parts).sum(0)

    def finish(self, block: Block, weights: Tensor, keep: Tensor, gain: Tensor) -> None:
        """Write the direction over main's gradient and move the averages, both in place.

        direction = sum of weights * vectors,   average <- keep * average + gain * gradient   if gain is above 0
        """
        if self._compiled_finish is not None and block.size >= SMALL:
            self._compiled_finish(_bare(block.gradients), _bare(block.averages), weights, keep, gain)
            return
        for piece in block.pieces():
            _finish(piece.gradients, piece.averages, weights, keep, gain)


def probes(block: Block, index: int) -> Tensor:
    """For each gradient of a block, its inner product with a fixed vector without pattern, other for each index.

    It tells gradients apart that have the same length.
    """
    parts = []
    for number, piece in enumerate(block.pieces()):
        weight = 0.5 + (index + 7919 * number) * GOLDEN % 1
        parts.append(weight * torch.stack([_probe(vector) for vector in _wide(piece.gradients)]))
    return torch.stack(parts).sum(0)


def _probe(vector: Tensor) -> Tensor:
    rows, width = vector.numel() // WIDTH, WIDTH
    body, rest = vector[: rows * width].view(rows, width), vector[rows * width :]
    across = torch.arange(width, dtype=vector.dtype, device=vector.device) * GOLDEN % 1 - 0.5
    down = torch.arange(rows + 1, dtype=vector.dtype, device=vector.device) * GOLDEN % 1 + 0.5
    return torch.dot(body @ across, down[:-1]) + torch.dot(rest, across[: rest.numel()]) * down[-1]


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type to compute in: float32 at least."""
    return torch.promote_types(dtype, torch.float32)


def _wide(vectors: list[Tensor]) -> list[Tensor]:
    dtype = wide(vectors[0].dtype)
    return [vector.to(dtype) for vector in vectors]


def _bare(views: list[Tensor]) -> list[Tensor]:
    """The same memory, not as views: the compiler would make a kernel for every shape that they are views of."""
    return [
        view.new_empty(0).set_(view.untyped_storage(), view.storage_offset(), view.shape, view.stride())
        for view in views
    ]


def _products(vectors: list[Tensor], pairs: Pairs) -> Tensor:
    vectors = _wide(vectors)
    return torch.stack([torch.dot(vectors[a], vectors[b]) for a, b in pairs])


def _fused_products(vectors: list[Tensor], pairs: Pairs) -> Tensor:
    vectors = _wide(vectors)
    return torch.stack([(vectors[a] * vectors[b]).sum() for a, b in pairs])


def _finish(gradients: list[Tensor], averages: list[Tensor], weights: Tensor, keep: Tensor, gain: Tensor) -> None:
    main, *others = vectors = _wide([*gradients, *averages])
    first, *rest = weights.to(main.dtype).unbind()
    direction = main * first
    for vector, weight in zip(others, rest, strict=True):
        direction.addcmul_(vector, weight)
    for average, gradient in zip(averages, vectors, strict=False):
        # where, not a product with gain: 0 times NaN is NaN
        average.copy_(torch.where(gain > 0, average * keep + gradient * gain, average))
    gradients[0].copy_(direction)
