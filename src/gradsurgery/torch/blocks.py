"""Blocks: one parameter's vectors. Small ones are joined, large ones split."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradsurgery.torch.layout import by_stride
from gradsurgery.torch.number import apart

PIECE = 1 << 19
"""Elements of a piece: on a CPU, what its cache holds, to be read from memory once for all that is done with it. (A dot
of many more would lose digits, too.)"""

SMALL = 1 << 15
"""Blocks of fewer elements are joined, as a call takes longer than their work."""


@dataclass(frozen=True)
class Block:
    """Gradients, main first, and averages, as tensors of one shape on one device."""

    gradients: Sequence[Tensor]
    averages: Sequence[Tensor]

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
    def kind(self) -> tuple[torch.device, torch.dtype]:
        """What blocks that can be joined have in common."""
        return self.device, self.gradients[0].dtype

    def pieces(self) -> "Iterator[Block]":
        """Parts that share the block's memory on a CPU, else the block itself."""
        if apart(self.device) or self.size <= PIECE:
            yield self
            return
        count = len(self.gradients)
        for parts in zip(*(torch.split(vector, PIECE) for vector in self.vectors), strict=True):
            yield Block(parts[:count], parts[count:])


@dataclass(frozen=True)
class Joined(Block):
    """Several blocks as one, by copies of their vectors."""

    parts: Sequence[Block]

    def hand_back(self) -> None:
        """Copy what was written to where it belongs."""
        sizes = [part.size for part in self.parts]
        for index, vector in enumerate(self.written):
            places = [part.written[index] for part in self.parts]
            copies = zip(torch.split(vector, sizes), places, strict=True)
            torch._foreach_copy_(places, [copy.view(place.shape) for copy, place in copies])


def joined(blocks: Iterable[Block]) -> list[Block]:
    """The blocks flat: each large one by its own memory, and the small ones of each kind as one."""
    large, small = [], dict[object, list[Block]]()
    for block in blocks:
        if block.size >= SMALL:
            large.append(flat(block))
        else:
            small.setdefault(block.kind, []).append(block)
    return [*large, *map(_join, small.values())]


def flat(block: Block) -> Block:
    """The block as 1-d tensors that share its memory; a gradient that lies otherwise than the last is copied."""
    last = block.gradients[-1]
    stride = last.stride()
    order = None if last.is_contiguous() else by_stride(last)

    def flattened(tensor: Tensor) -> Tensor:
        aligned = tensor if tensor.stride() == stride else torch.empty_like(last).copy_(tensor)
        return (aligned if order is None else aligned.permute(order)).view(-1)

    return Block([flattened(one) for one in block.gradients], [flattened(one) for one in block.averages])


def _join(blocks: Sequence[Block]) -> Joined:
    rows = zip(*(block.vectors for block in blocks), strict=True)
    vectors = [torch.cat([tensor.reshape(-1) for tensor in row]) for row in rows]
    count = len(blocks[0].gradients)
    return Joined(vectors[:count], vectors[count:], blocks)
