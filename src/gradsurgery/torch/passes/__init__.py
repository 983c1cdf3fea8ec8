"""The two passes over memory: the inner products, then the direction and the averages together.

Both accumulate in float32 or wider. There are three implementations: ``eager`` with PyTorch operations, for any device;
``native``, a C++ kernel for the CPU; ``triton``, kernels for CUDA and ROCm. ``compile=True`` selects the last two.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Protocol

import torch

from gradsurgery.scalar import Scalar
from gradsurgery.torch import scalars
from gradsurgery.torch.passes import native
from gradsurgery.torch.passes.blocks import Block
from gradsurgery.torch.passes.eager import Eager
from gradsurgery.torch.passes.native import Native
from gradsurgery.torch.scalars import Pairs

__all__ = ["Block", "Passes", "check_compile", "make_passes"]


class Passes(Protocol):
    """The two passes over the blocks of one step that have the same types and device."""

    def products(self) -> Sequence[Scalar]:
        """The inner products, in the order of ``pairs``: floats on the CPU, 0-d tensors elsewhere."""

    def combine(
        self, weights: Sequence[Scalar], averaging: Sequence[tuple[Scalar, Scalar]], step: int, *, scaled: bool
    ) -> None:
        """Write the direction over the last gradient and update the averages, both in place.

            direction = sum of weights * vectors
            average <- keep average + take gradient   if take > 0, with keep, take = averaging[block.cohort]

        Args:
            weights: one for each gradient and average. One that is the same in every step may be a Python float, also
                where the others are tensors; a weight of 1 for main then costs nothing.
            averaging: for each cohort, the weights of the old average and of the gradient in the new average; take = 0
                leaves the averages as they are, whatever the gradient is.
            step: the number of steps before this one, which seeds the stochastic rounding of averages in bfloat16.
            scaled: whether take is divided by the scale of a ``GradScaler``; if not, keep + take = 1.
        """


def make_passes(blocks: Sequence[Block], pairs: Pairs, *, compile: bool) -> Passes:  # noqa: A002
    """The passes over these blocks, by fused kernels if ``compile`` is set.

    Args:
        blocks: at least one; of one device, one type of gradients and one type of averages.
        pairs: the inner products to compute.
        compile: whether to use the kernel for this device.
    """
    if not compile:
        return Eager(blocks, pairs)
    if not scalars.is_async(blocks[0].gradients[0]):
        return Native(blocks, pairs)
    from gradsurgery.torch.passes.triton import Triton  # not everyone has Triton

    return Triton(blocks, pairs)


def check_compile(device: torch.device) -> None:
    """Raise unless there are kernels for this device, and what they need is installed."""
    if device.type == "cpu":
        native.compiler_command()
    elif device.type != "cuda":  # which is ROCm's name, too
        raise ValueError(
            f"compile=True needs parameters on a CPU or on a CUDA or ROCm device; got one on {device}: omit compile"
        )
    elif find_spec("triton") is None:
        raise RuntimeError("compile=True needs Triton on a GPU; got none: pip install triton")
