"""The two passes by ``torch.compile``: one kernel each for every type, whatever the lengths of the blocks."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from gradsurgery.scalar import Scalar
from gradsurgery.torch.blocks import SMALL, Block, joined
from gradsurgery.torch.passes.eager import Eager
from gradsurgery.torch.scalars import Numbers, Pairs, wide, widened

TOGETHER = 8
"""Blocks in a call: to reach a kernel takes as long as to read some thousand elements."""

Bunch = list[list[Tensor]]
"""The vectors of as many blocks of one type."""


class Compiled:
    """The two passes over blocks of one type; see ``Passes``.

    Args:
        blocks: at least one; what is small even when joined is left to ``Eager``.
        pairs: the inner products to form.
        kernels: what was compiled so far.
    """

    def __init__(self, blocks: Sequence[Block], pairs: Pairs, kernels: "Kernels") -> None:
        self._blocks, self._pairs, self._kernels = joined(blocks), pairs, kernels
        large = [[_bare(vector) for vector in block.vectors] for block in self._blocks if block.size >= SMALL]
        self._bunches = [large[at : at + TOGETHER] for at in range(0, len(large), TOGETHER)]
        small = [block for block in self._blocks if block.size < SMALL]
        self._rest = Eager(small, pairs) if small else None

    def products(self) -> Sequence[Scalar]:
        """The inner products."""
        found = [self._kernels.products(bunch, self._pairs) for bunch in self._bunches]
        rest = [torch.stack(list(self._rest.products()))] if self._rest else []
        return torch.stack([*found, *rest]).sum(0).unbind()

    def finish(self, weights: Sequence[Scalar], keep: Scalar, take: Scalar, unscale: Scalar | None) -> None:
        """Write the direction and move the averages."""
        first = self._blocks[0]
        scalars = Numbers(first.device, wide(first.dtype))
        *row, old, new, factor = scalars.scalars([*weights, keep, take, 1.0 if unscale is None else unscale])
        for bunch in self._bunches:
            self._kernels.finish(bunch, len(first.gradients), torch.stack(row), old, new, factor)
        if self._rest:
            self._rest.finish(weights, keep, take, unscale)
        for block in self._blocks:
            block.hand_back()


class Kernels:
    """Kernels that are compiled when they are first needed."""

    def __init__(self) -> None:
        self._ready: set[object] = set()

    @cached_property
    def _products(self) -> Callable[..., Any]:
        return torch.compile(_products, dynamic=True)  # which imports much, and takes seconds to

    @cached_property
    def _finish(self) -> Callable[..., Any]:
        return torch.compile(_finish, dynamic=True)

    def products(self, bunch: Bunch, pairs: Pairs) -> Tensor:
        """The inner products of the vectors."""
        found: Tensor = self._called(self._products, bunch, pairs)
        return found

    def finish(self, bunch: Bunch, count: int, weights: Tensor, keep: Tensor, take: Tensor, unscale: Tensor) -> None:
        """Write the direction and move the averages, given the number of gradients in a block."""
        self._called(self._finish, bunch, count, weights, keep, take, unscale)

    def _called(self, kernel: Callable[..., Any], bunch: Bunch, *arguments: Any) -> Any:
        key = kernel, *((vector.device, vector.dtype) for vector in bunch[0])
        if key not in self._ready:
            # lengths that are equal in the first call would be taken for equal in all
            kernel([[one.new_zeros(SMALL + 64 * index) for one in bunch[0]] for index in range(TOGETHER)], *arguments)
            self._ready.add(key)
        missing = [[one.new_zeros(SMALL) for one in bunch[0]] for _ in range(TOGETHER - len(bunch))]
        return kernel([*bunch, *missing], *arguments)


def _products(blocks: Bunch, pairs: Pairs) -> Tensor:
    rows = [torch.stack([(one[a] * one[b]).sum() for a, b in pairs]) for one in map(widened, blocks)]
    return torch.stack(rows).sum(0)


def _finish(blocks: Bunch, count: int, weights: Tensor, keep: Tensor, take: Tensor, unscale: Tensor) -> None:
    for block in blocks:
        vectors = widened(block)
        direction = sum(vector * weight for vector, weight in zip(vectors, weights, strict=True))
        for average, gradient in zip(block[count:], vectors, strict=False):
            # where, not a product with take: 0 times NaN is NaN
            average.copy_(torch.where(take > 0, keep * average + take * (gradient * unscale), average))
        block[count - 1].copy_(direction)


def _bare(view: Tensor) -> Tensor:
    """The same memory, not as a view: the compiler would make a kernel for every shape that it is a view of."""
    return view.new_empty(0).set_(view.untyped_storage(), view.storage_offset(), view.shape, view.stride())
