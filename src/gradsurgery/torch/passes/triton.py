# mypy: disable-error-code="import-untyped"
"""The two passes on CUDA and ROCm with Triton: one kernel each, over the addresses of all tensors of a type.

A program works on one tile of one block, so a launch serves any number of tensors of any sizes. Inner products are
summed without atomics, so they are the same in every run: each program writes its partial sums, and ``sum`` adds them
up. Weights stay on the device: the second pass reads them from memory. For each element Bloop's passes read six words
and write two.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from gradsurgery.scalar import Scalar
from gradsurgery.torch.passes import triton_kernels as kernels
from gradsurgery.torch.passes.blocks import Block
from gradsurgery.torch.scalars import Pairs, compute_dtype

TILE = 4096
"""The number of elements that a program works on."""

OPTIONS = {"num_warps": 8, "enable_fp_fusion": True}

TRITON_TYPES = {
    torch.float64: tl.float64,
    torch.float32: tl.float32,
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
}


class Triton:
    """The two passes with Triton kernels; see ``Passes``.

    Args:
        blocks: at least one.
        pairs: the inner products to compute.
    """

    def __init__(self, blocks: Sequence[Block], pairs: Pairs) -> None:
        self._blocks = blocks  # keeps the tensors alive: the table holds raw pointers
        first = blocks[0]
        self._device, self._dtype, self._pairs = first.device, compute_dtype(first.dtype), pairs
        sizes = tuple(block.size for block in blocks)
        self._tiles, starts = _tiles(sizes, self._device)
        addresses = np.array([[vector.data_ptr() for vector in block.vectors] for block in blocks])
        aligned = (addresses % 16 == 0).all(1) & (np.array(sizes) % 8 == 0)
        cohorts, positions = zip(*((block.cohort, block.position) for block in blocks), strict=True)
        self._table = _copy_to(self._device, np.column_stack([sizes, starts, cohorts, positions, aligned, addresses]))
        self._constants = {
            "types": tuple(TRITON_TYPES[vector.dtype] for vector in first.vectors),
            "wide": TRITON_TYPES[self._dtype],
            "length": TILE,
        }

    def products(self) -> Sequence[Scalar]:
        """The inner products."""
        partial = torch.empty(len(self._tiles), len(self._pairs), dtype=self._dtype, device=self._device)
        self._launch(kernels.products, partial, pairs=self._pairs)
        return partial.sum(0).unbind()

    def combine(
        self, weights: Sequence[Scalar], averaging: Sequence[tuple[Scalar, Scalar]], step: int, *, scaled: bool
    ) -> None:
        """Write the direction and update the averages."""
        values = [*weights, *(value for pair in averaging for value in pair)]
        coefficients = torch.stack([self._scalar(value) for value in values])
        self._launch(kernels.combine, coefficients, step, gradients=len(self._blocks[0].gradients))

    def _launch(self, kernel: Any, *arguments: Any, **constants: Any) -> None:
        if len(self._tiles) > 0:
            with torch.cuda.device_of(self._table):  # type: ignore[no-untyped-call]
                kernel[len(self._tiles),](
                    self._table, self._tiles, *arguments, **constants, **self._constants, **OPTIONS
                )

    def _scalar(self, value: Scalar) -> Tensor:
        """A 0-d tensor on the device, made without waiting for it."""
        if isinstance(value, Tensor):
            return value.to(self._device, self._dtype)
        return torch.full((), float(value), dtype=self._dtype, device=self._device)


@lru_cache(maxsize=16)
def _tiles(sizes: tuple[int, ...], device: torch.device) -> tuple[Tensor, list[int]]:
    """The row of each tile, on the device, and the first tile of each row."""
    counts = [-(-size // TILE) for size in sizes]
    rows = np.repeat(np.arange(len(sizes), dtype=np.int32), counts)
    return _copy_to(device, rows), [0, *np.cumsum(counts)[:-1].tolist()]


def _copy_to(device: torch.device, array: NDArray[Any]) -> Tensor:
    """A copy on the device. From pinned memory, nothing waits for it."""
    tensor = torch.from_numpy(array)
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)
