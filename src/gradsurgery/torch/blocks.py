"""Step 2, lay out: the vectors of each parameter, with equal strides, in the blocks that the passes work on."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

from gradsurgery.torch import scalars
from gradsurgery.torch.dtensor import Shards, local, shards_of
from gradsurgery.torch.state import State

PIECE = 1 << 20
"""The number of elements in a piece. On the CPU a piece fits in the cache, so that several operations read memory once,
and its dot product does not lose digits as that of a longer vector would."""

SMALL = 1 << 15
"""Blocks with fewer elements are merged: the overhead of a call would exceed the work in it."""


class Block(NamedTuple):
    """The vectors of one parameter: gradients, main first, and averages, of one shape and on one device."""

    gradients: Sequence[Tensor]
    averages: Sequence[Tensor]
    parts: "Sequence[Block]" = ()
    """The blocks that were copied into this one, if it was merged."""

    @property
    def vectors(self) -> list[Tensor]:
        """Gradients, then averages."""
        return [*self.gradients, *self.averages]

    @property
    def outputs(self) -> list[Tensor]:
        """What the second pass writes: the direction, in place of the last gradient, and the averages."""
        return [self.gradients[-1], *self.averages]

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

    def pieces(self) -> "Sequence[Block]":
        """A flat block cut into pieces that share its memory, on the CPU; elsewhere the whole block."""
        if self.size <= PIECE or scalars.is_async(self.gradients[0]):
            return [self]
        count = len(self.gradients)
        pieces = zip(*(torch.split(vector, PIECE) for vector in self.vectors), strict=True)
        return [Block(piece[:count], piece[count:]) for piece in pieces]

    def scatter_back(self) -> None:
        """Copy the outputs of a merged block to its parts."""
        if not self.parts:
            return
        for vector, *outputs in zip(self.outputs, *(part.outputs for part in self.parts), strict=True):
            torch._foreach_copy_(outputs, _unflatten_dense_tensors(vector, outputs))  # type: ignore[no-untyped-call]


def merge_small(blocks: Sequence[Block]) -> list[Block]:
    """Blocks of one type as flat blocks: large ones share their memory, small ones are copied into one."""
    large, small = [], []
    for block in blocks:
        if block.size < SMALL:
            small.append(block)
        else:
            large.append(flatten(block))
    if not small:
        return large
    rows = zip(*(block.vectors for block in small), strict=True)
    vectors = [_flatten_dense_tensors(row) for row in rows]  # type: ignore[no-untyped-call]
    count = len(small[0].gradients)
    return [*large, Block(vectors[:count], vectors[count:], small)]


def flatten(block: Block) -> Block:
    """The block as 1-d tensors that share its memory."""
    last = block.gradients[-1]
    if last.is_contiguous():
        return Block([vector.view(-1) for vector in block.gradients], [vector.view(-1) for vector in block.averages])
    order = _memory_order(last)
    return Block(
        [vector.permute(order).view(-1) for vector in block.gradients],
        [vector.permute(order).view(-1) for vector in block.averages],
    )


def make_dense(tensor: Tensor) -> Tensor:
    """The tensor if its elements are adjacent in memory, in any order of dimensions; else a contiguous copy."""
    shard = local(tensor)
    is_dense = shard.is_contiguous() or shard.permute(_memory_order(shard)).is_contiguous()
    return tensor if is_dense else tensor.contiguous()


def _memory_order(tensor: Tensor) -> list[int]:
    """The dimensions by decreasing stride: in this order a dense tensor is contiguous."""
    return sorted(range(tensor.dim()), key=tensor.stride, reverse=True)


Group = tuple[Shards | None, torch.device, torch.dtype]
"""What blocks in one pass have in common: where their other shards are, the device, and the type."""


class CachedLayout(NamedTuple):
    """The memory layout of one parameter's vectors in the previous step, which rarely changes."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    averages: Sequence[Tensor]
    group: Group

    def fits(self, gradients: Sequence[Tensor | None]) -> bool:
        """Whether these gradients are plain tensors in the same layout."""
        for gradient in gradients:
            if (
                type(gradient) is not Tensor
                or gradient.stride() != self.strides
                or gradient.shape != self.shape
                or gradient.dtype is not self.dtype
                or gradient.device != self.device
            ):
                return False
        return True


class Layout:
    """Makes the blocks of a step.

    Args:
        parameters: the parameters.
        state: holds their averages.
    """

    def __init__(self, parameters: list[Tensor], state: State) -> None:
        self._parameters, self._state = parameters, state
        self.forget()

    def forget(self) -> None:
        """Drop the cached layouts, after the averages were replaced."""
        self._cached: list[CachedLayout | None] = [None] * len(self._parameters)

    def blocks(self, gathered: Sequence[list[Tensor | None]]) -> tuple[dict[Group, list[Block]], list[Tensor | None]]:
        """The blocks by group, and for each parameter the tensor that the direction will be written to.

        Args:
            gathered: the gradients of each loss, main first.
        """
        groups: dict[Group, list[Block]] = {}
        directions: list[Tensor | None] = []
        for index, gradients in enumerate(zip(*gathered, strict=True)):
            cached = self._cached[index]
            if cached is not None and cached.fits(gradients):
                groups.setdefault(cached.group, []).append(Block(gradients, cached.averages))
                directions.append(gradients[-1])
            else:
                directions.append(self._add_block(index, gradients, groups))
        return groups, directions

    def _add_block(
        self, index: int, gradients: tuple[Tensor | None, ...], groups: dict[Group, list[Block]]
    ) -> Tensor | None:
        """Add the block of one parameter, converting gradients whose layout or type differs, and cache the layout."""
        parameter = self._parameters[index]
        reached = [gradient for gradient in gradients if gradient is not None]
        if not reached and not self._state.has_averages(index):
            return None
        like = reached[0] if reached else torch.zeros_like(parameter)
        filled = _match_dtypes([torch.zeros_like(like) if gradient is None else gradient for gradient in gradients])
        last = filled[-1]
        averages = [local(average) for average in self._state.averages(index, last)]
        block = Block([_match_strides(local(gradient), local(last)) for gradient in filled], averages)
        group = shards_of(parameter), block.device, block.dtype
        groups.setdefault(group, []).append(block)
        cached = CachedLayout(last.shape, last.stride(), last.dtype, last.device, averages, group)
        self._cached[index] = cached if cached.fits(gradients) else None
        return last if reached else None


def _match_dtypes(gradients: list[Tensor]) -> list[Tensor]:
    """The gradients in the widest of their types; types differ only where a parameter's ``grad_dtype`` is None."""
    if all(gradient.dtype == gradients[0].dtype for gradient in gradients):
        return gradients
    widest = reduce(torch.promote_types, [gradient.dtype for gradient in gradients])
    return [gradient.to(widest) for gradient in gradients]


def _match_strides(gradient: Tensor, like: Tensor) -> Tensor:
    return gradient if gradient.stride() == like.stride() else torch.empty_like(like).copy_(gradient)
