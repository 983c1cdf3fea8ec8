"""Blocks, and the flat pieces that PyTorch's operations work on: large blocks are cut, small ones merged."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from gradsurgery.torch import scalars

PIECE = 1 << 20
"""The number of elements in a piece on the CPU. It fits in the cache, so that several operations read memory once, and
its dot product does not lose digits as that of a longer vector would."""

CONVERTED_PIECE = 1 << 16
"""The number of elements in a piece on the CPU if vectors are converted, so that the copies take little memory."""

DEVICE_PIECE = 1 << 24
"""The number of elements in a piece elsewhere, for the same reason."""

SMALL = 1 << 15
"""Blocks with fewer elements are merged: the overhead of a call would exceed the work in it."""


class Block(NamedTuple):
    """The vectors of one parameter: of one shape, dense, with equal strides, on one device."""

    gradients: Sequence[Tensor]
    """Of one type, main first. The direction is written over the last."""
    averages: Sequence[Tensor]
    """Of one type: float32 or wider, or bfloat16."""
    cohort: int = 0
    """Which of the weights in ``averaging`` apply: parameters that joined at different steps have different ones."""
    position: int = 0
    """The position of the parameter in the surgery, which seeds the stochastic rounding of its averages."""

    @property
    def vectors(self) -> list[Tensor]:
        """Gradients, then averages."""
        return [*self.gradients, *self.averages]

    @property
    def device(self) -> torch.device:
        """The device of the vectors."""
        return self.gradients[0].device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the gradients."""
        return self.gradients[0].dtype

    @property
    def size(self) -> int:
        """The number of elements in each vector."""
        return self.gradients[0].numel()


class Piece(NamedTuple):
    """Part of a block, or several small blocks copied into one, as 1-d tensors."""

    gradients: Sequence[Tensor]
    averages: Sequence[Tensor]
    cohort: int
    origins: tuple[tuple[int, int, int], ...]
    """Where the elements come from, in order: the position of the block, the first element, the number of elements."""
    merged: Sequence[Block] = ()
    """The blocks that were copied into this piece."""

    @property
    def vectors(self) -> list[Tensor]:
        """Gradients, then averages."""
        return [*self.gradients, *self.averages]

    def copy_back(self) -> None:
        """Copy the direction and the averages of a merged piece to its blocks."""
        if self.merged:
            outputs = [[block.gradients[-1], *block.averages] for block in self.merged]
            for vector, row in zip([self.gradients[-1], *self.averages], zip(*outputs, strict=True), strict=True):
                torch._foreach_copy_(row, _unflatten_dense_tensors(vector, row))  # type: ignore[no-untyped-call]


def make_pieces(blocks: Sequence[Block]) -> list[Piece]:
    """The pieces of blocks that have the same types and device."""
    pieces: list[Piece] = []
    small: dict[int, list[Block]] = {}
    for block in blocks:
        if block.size < SMALL:
            small.setdefault(block.cohort, []).append(make_contiguous(block))
        else:
            pieces += cut(flatten(block))
    return [*pieces, *(_merge(group) for group in small.values())]


def make_contiguous(block: Block) -> Block:
    """The block with its dimensions in the order of memory."""
    last = block.gradients[-1]
    if last.is_contiguous():
        return block
    order = memory_order(last)
    gradients, averages = ([vector.permute(order) for vector in vectors] for vectors in block[:2])
    return Block(gradients, averages, block.cohort, block.position)


def flatten(block: Block) -> Block:
    """The block as 1-d tensors that share its memory."""
    gradients, averages, *rest = make_contiguous(block)
    return Block([vector.view(-1) for vector in gradients], [vector.view(-1) for vector in averages], *rest)


def memory_order(tensor: Tensor) -> list[int]:
    """The dimensions by decreasing stride: in this order a dense tensor is contiguous."""
    return sorted(range(tensor.dim()), key=tensor.stride, reverse=True)


def cut(block: Block) -> list[Piece]:
    """A flat block as pieces that share its memory."""
    length, count = _piece_length(block), len(block.gradients)
    if block.size <= length:
        return [Piece(block.gradients, block.averages, block.cohort, ((block.position, 0, block.size),))]
    return [
        Piece(row[:count], row[count:], block.cohort, ((block.position, index * length, row[0].numel()),))
        for index, row in enumerate(zip(*(torch.split(vector, length) for vector in block.vectors), strict=True))
    ]


def _piece_length(block: Block) -> int:
    if scalars.is_async(block.gradients[0]):
        return DEVICE_PIECE
    wide = scalars.compute_dtype(block.dtype)
    return PIECE if all(vectors[0].dtype == wide for vectors in block[:2] if vectors) else CONVERTED_PIECE


def _merge(blocks: list[Block]) -> Piece:
    """Contiguous blocks of one cohort, copied into one piece."""
    blocks = [block for block in blocks if block.size] or blocks[:1]  # PyTorch 2.6 cannot unflatten empty tensors
    if len(blocks) == 1:
        return cut(flatten(blocks[0]))[0]
    rows = zip(*(block.vectors for block in blocks), strict=True)
    vectors = [_flatten_dense_tensors(row) for row in rows]  # type: ignore[no-untyped-call]
    count, origins = len(blocks[0].gradients), tuple((block.position, 0, block.size) for block in blocks)
    return Piece(vectors[:count], vectors[count:], blocks[0].cohort, origins, blocks)
