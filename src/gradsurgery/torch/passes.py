"""The two passes over memory: inner products, then the direction and the averages in one go.

Sums run in float32 at least. There are three ways: PyTorch's own operations, and when asked to compile, a kernel in C++
on a CPU, and what ``torch.compile`` makes on an accelerator.
"""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from gradsurgery.torch.blocks import Block
from gradsurgery.torch.compiled import Compiled, Kernels
from gradsurgery.torch.eager import Eager
from gradsurgery.torch.native import Native
from gradsurgery.torch.number import Pairs, apart


class Passes(Protocol):
    """The two passes over some blocks of a step."""

    def products(self) -> Tensor:
        """The inner products, as one 1-d tensor."""

    def finish(self, weights: Tensor, rho: Tensor, scale: Tensor | None) -> None:
        """Write the direction over the last gradient and move the averages, both in place.

            direction = sum of weights * vectors,   average <- (1 - rho) average + rho gradient / scale   if rho > 0

        Args:
            weights: one for each gradient and average.
            rho: the speed of the averages, 0 in an unsound step.
            scale: what the gradients are multiplied by, if they are.
        """


def passes(blocks: Sequence[Block], pairs: Pairs, kernels: Kernels | None) -> list[Passes]:
    """The passes over each kind of blocks, by kernels if there are any."""
    kinds: dict[object, list[Block]] = {}
    for block in blocks:
        kinds.setdefault(block.kind, []).append(block)
    return [_passes(some, pairs, kernels) for some in kinds.values()]


def _passes(blocks: Sequence[Block], pairs: Pairs, kernels: Kernels | None) -> Passes:
    if kernels is None:
        return Eager(blocks, pairs)
    return Compiled(blocks, pairs, kernels) if apart(blocks[0].device) else Native(blocks, pairs)
