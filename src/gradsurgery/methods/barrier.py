"""Dynamic barrier, as in Table 1: follow aux, plus as much of main as it takes to decrease main at the rate psi.

d = g_aux + max((psi - <g_main, g_aux>) / |g_main|^2, 0) g_main
"""

from collections.abc import Callable
from dataclasses import dataclass

from gradsurgery.method import Method, Step
from gradsurgery.scalar import Scalar, maximum, ratio
from gradsurgery.vector import Vector


def squared_main(main: Vector, aux: Vector) -> Scalar:
    """|g_main|^2, which makes the barrier Bloop's full-batch rule with lam = 1 wherever <g_main, g_aux> < psi.

    The paper's text prints |g_aux|^2, a misprint: that would not be Bloop.
    """
    return main @ main


@dataclass(frozen=True)
class barrier(Method):
    """Follow aux, and add as much of main as it takes for main to decrease at the rate ``psi``.

    Dynamic barrier with a barrier function, the form of Table 1; ``dynamic_barrier`` has a weight instead.

    Args:
        psi: the required decrease of main, a function of ``(main, aux)`` that uses their inner products, for example
            ``lambda main, aux: 0.5 * (main @ main)``.

    Example:
        >>> barrier()
        barrier(psi=squared_main)

    Reference: Gong et al., *Automatic and Harmless Regularization with Constrained and Lexicographic Optimization: A
    Dynamic Barrier Approach*, NeurIPS 2021.
    """

    psi: Callable[[Vector, Vector], Scalar] = squared_main

    def __post_init__(self) -> None:
        if not callable(self.psi):
            raise TypeError(f"psi must be a function of (main, aux); got {self.psi!r}")

    def __repr__(self) -> str:
        return f"barrier(psi={getattr(self.psi, '__name__', self.psi)})"

    def direction(self, step: Step) -> Vector:
        main, (aux,) = step.main, step.aux
        return aux + ratio(maximum(self.psi(main, aux) - main @ aux, 0.0), main @ main) * main
