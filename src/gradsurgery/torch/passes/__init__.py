"""The two passes over memory: inner products, then the direction and the averages in one go.

Sums run in float32 at least. There are three ways: PyTorch's own operations, and when asked to compile, a kernel in C++
on a CPU, and what ``torch.compile`` makes on an accelerator.
"""

from collections.abc import Sequence
from typing import Protocol

from gradsurgery.scalar import Scalar
from gradsurgery.torch.blocks import Block
from gradsurgery.torch.passes.compiled import Compiled, Kernels
from gradsurgery.torch.passes.eager import Eager
from gradsurgery.torch.passes.native import Native
from gradsurgery.torch.scalars import Pairs, apart


class Passes(Protocol):
    """The two passes over some blocks of a step."""

    def products(self) -> Sequence[Scalar]:
        """The inner products."""

    def finish(self, weights: Sequence[Scalar], keep: Scalar, take: Scalar, unscale: Scalar | None) -> None:
        """Write the direction over the last gradient and move the averages, both in place.

            direction = sum of weights * vectors,   average <- keep average + take unscale gradient   if take > 0

        Args:
            weights: one for each gradient and average.
            keep: the weight of the old average.
            take: the weight of its gradient, 0 in an unsound step; keep + take = 1.
            unscale: one over what the gradients are multiplied by, if they are.
        """


def passes(blocks: Sequence[Block], pairs: Pairs, kernels: Kernels | None) -> Passes:
    """The passes over blocks of one type on one device, by kernels if there are any."""
    if kernels is None:
        return Eager(blocks, pairs)
    return Compiled(blocks, pairs, kernels) if apart(blocks[0].device) else Native(blocks, pairs)
