"""Blocks: one parameter's vectors. Small ones are joined, large ones split."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from gradsurgery.torch.layout import by_stride
from gradsurgery.torch.scalars import apart

PIECE = 1 << 20
"""Elements of a piece: on a CPU, what its cache holds, to be read from memory once for all that is done with it. (A dot
of many more would lose digits, too.)"""

SMALL = 1 << 15
"""Blocks of fewer elements are joined, as a call takes longer than their work."""


class Block(NamedTuple):
    """Gradients, main first, and averages, as tensors of one shape on one device."""

    gradients: Sequence[Tensor]
    averages: Sequence[Tensor]
    parts: "Sequence[Block]" = ()
    """Those that it was joined of, if it was, by copies of their vectors (a single one shares its memory)."""

    @property
    def vectors(self) -> list[Tensor]:
        """Gradients, then averages."""
        return [*self.gradients, *self.averages]

    @property
    def written(self) -> list[Tensor]:
        """What the second pass leaves behind: the direction in place of the last gradient, and the averages."""
        return [self.gradients[-1], *self.averages]

    @property
    def device(self) -> torch.device:
        """Where the vectors lie."""
        return self.gradients[0].device

    @property
    def size(self) -> int:
        """Elements in each vector."""
        return self.gradients[0].numel()

    @property
    def dtype(self) -> torch.dtype:
        """The type of the gradients."""
        return self.gradients[0].dtype

    def pieces(self) -> "Sequence[Block]":
        """Parts that share the block's memory on a CPU, else the block itself."""
        if self.size <= PIECE or apart(self.device):
            return [self]
        count = len(self.gradients)
        parts = zip(*(torch.split(vector, PIECE) for vector in self.vectors), strict=True)
        return [Block(part[:count], part[count:]) for part in parts]

    def hand_back(self) -> None:
        """Copy what was written to the parts, if there are any."""
        if not self.parts:
            return
        for vector, *places in zip(self.written, *(part.written for part in self.parts), strict=True):
            torch._foreach_copy_(places, _unflatten_dense_tensors(vector, places))  # type: ignore[no-untyped-call]


def joined(blocks: Sequence[Block]) -> list[Block]:
    """Blocks of one type, flat: each large one by its own memory, and the small ones as one."""
    large = [flat(block) for block in blocks if block.size >= SMALL]
    small = [block for block in blocks if block.size < SMALL]
    if not small:
        return large
    rows = zip(*(block.vectors for block in small), strict=True)
    vectors = [_flatten_dense_tensors(row) for row in rows]  # type: ignore[no-untyped-call]
    count = len(small[0].gradients)
    return [*large, Block(vectors[:count], vectors[count:], small)]


def aligned(gradients: list[Tensor], averages: list[Tensor]) -> Block:
    """A block with all vectors in the order of the last gradient's elements: a gradient that lies otherwise is copied.

    Args:
        gradients: of one type.
        averages: as ``laid_like`` the last gradient.
    """
    last = gradients[-1]
    strides = last.stride()
    return Block([one if one.stride() == strides else torch.empty_like(last).copy_(one) for one in gradients], averages)


def flat(block: Block) -> Block:
    """The block as 1-d tensors that share its memory."""
    last = block.gradients[-1]
    if last.is_contiguous():
        return Block([one.view(-1) for one in block.gradients], [one.view(-1) for one in block.averages])
    order = by_stride(last)
    return Block(
        [one.permute(order).view(-1) for one in block.gradients],
        [one.permute(order).view(-1) for one in block.averages],
    )
