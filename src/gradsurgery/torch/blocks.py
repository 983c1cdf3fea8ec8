"""Step 2, lay out: the vectors of each parameter, with equal strides, in the blocks that the passes work on."""

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor

from gradsurgery.torch.dtensor import Shards, local, shards_of
from gradsurgery.torch.passes.blocks import Block, memory_order
from gradsurgery.torch.state import State


def make_dense(tensor: Tensor) -> Tensor:
    """The tensor if its elements are adjacent in memory, in any order of dimensions; else a contiguous copy."""
    shard = local(tensor)
    is_dense = shard.is_contiguous() or shard.permute(memory_order(shard)).is_contiguous()
    return tensor if is_dense else tensor.contiguous()


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
                groups.setdefault(cached.group, []).append(Block(gradients, cached.averages, position=index))
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
        like_last = [_match_strides(local(gradient), local(last)) for gradient in filled]
        block = Block(like_last, averages, position=index)
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
