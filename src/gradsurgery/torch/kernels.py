"""The two passes as compiled kernels: one each for every type and device, whatever the lengths of the blocks."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from gradsurgery.torch.blocks import SMALL, Block
from gradsurgery.torch.number import Pairs, widened

TOGETHER = 8
"""Blocks in a call: to reach a kernel takes as long as to read some thousand elements."""

Group = list[list[Tensor]]
"""The vectors of as many blocks of one kind."""


class Kernels:
    """Kernels that are compiled when they are first needed."""

    def __init__(self) -> None:
        self._products = torch.compile(_products, dynamic=True)
        self._finish = torch.compile(_finish, dynamic=True)
        self._ready: set[object] = set()

    def products(self, group: Group, pairs: Pairs) -> Tensor:
        """The inner products of the vectors."""
        found: Tensor = self._called(self._products, group, pairs)
        return found

    def finish(self, group: Group, count: int, weights: Tensor, rho: Tensor, unscale: Tensor) -> None:
        """Write the direction and move the averages, given the number of gradients in a block."""
        self._called(self._finish, group, count, *(one.to(group[0][0].device) for one in (weights, rho, unscale)))

    def _called(self, kernel: Callable[..., Any], group: Group, *arguments: Any) -> Any:
        key = kernel, *((vector.device, vector.dtype) for vector in group[0])
        if key not in self._ready:
            # lengths that are equal in the first call would be taken for equal in all
            kernel([[one.new_zeros(SMALL + 64 * index) for one in group[0]] for index in range(TOGETHER)], *arguments)
            self._ready.add(key)
        missing = [[one.new_zeros(SMALL) for one in group[0]] for _ in range(TOGETHER - len(group))]
        return kernel([*group, *missing], *arguments)


def grouped(blocks: Iterable[Block]) -> list[Group]:
    """The blocks of each kind in groups for one call."""
    kinds: dict[object, Group] = {}
    for block in blocks:
        kinds.setdefault(block.kind, []).append([_bare(vector) for vector in block.vectors])
    return [some[at : at + TOGETHER] for some in kinds.values() for at in range(0, len(some), TOGETHER)]


def _products(blocks: Group, pairs: Pairs) -> Tensor:
    rows = [torch.stack([(one[a] * one[b]).sum() for a, b in pairs]) for one in map(widened, blocks)]
    return torch.stack(rows).sum(0)


def _finish(blocks: Group, count: int, weights: Tensor, rho: Tensor, unscale: Tensor) -> None:
    for block in blocks:
        vectors = widened(block)
        direction = sum(vector * weight for vector, weight in zip(vectors, weights.to(vectors[0].dtype), strict=True))
        for average, gradient in zip(block[count:], vectors, strict=False):
            # where, not a product with rho: 0 times NaN is NaN
            average.copy_(torch.where(rho > 0, average + (gradient * unscale - average) * rho, average))
        block[count - 1].copy_(direction)


def _bare(view: Tensor) -> Tensor:
    """The same memory, not as a view: the compiler would make a kernel for every shape that it is a view of."""
    return view.new_empty(0).set_(view.untyped_storage(), view.storage_offset(), view.shape, view.stride())
