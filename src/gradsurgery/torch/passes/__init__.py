"""Steps 3 and 5, the two passes over memory: the inner products, then the direction and the averages together.

Both accumulate in float32 or wider. They are written twice: with PyTorch operations, for any device, and as a C++
kernel for the CPU, which ``compile=True`` selects.
"""

from collections.abc import Sequence
from typing import Protocol

from gradsurgery.scalar import Scalar
from gradsurgery.torch.blocks import Block
from gradsurgery.torch.passes.eager import Eager
from gradsurgery.torch.passes.native import Native
from gradsurgery.torch.scalars import Pairs


class Passes(Protocol):
    """The two passes over the blocks of one step that have the same type and device."""

    def products(self) -> Sequence[Scalar]:
        """The inner products."""

    def combine(self, weights: Sequence[Scalar], keep: Scalar, take: Scalar, unscale: Scalar | None) -> None:
        """Write the direction over the last gradient and update the averages, both in place.

            direction = sum of weights * vectors,   average <- keep average + take unscale gradient   if take > 0

        Args:
            weights: one for each gradient and average.
            keep: the weight of the old average; keep + take = 1.
            take: the weight of the gradient in its average; 0 leaves the averages as they are.
            unscale: one over the scale of a ``GradScaler``; None without one.
        """


def make_passes(blocks: Sequence[Block], pairs: Pairs, *, compile: bool) -> Passes:  # noqa: A002
    """The passes over these blocks, by the C++ kernel if ``compile`` is set."""
    return Native(blocks, pairs) if compile else Eager(blocks, pairs)
