"""Priority-constrained descent: change main as little as it takes to give aux a share of its own progress.

m = g_main / s_main,  a = g_aux / s_aux,  s_i^2 = moving average of |g_i|^2
d = m + max(tau - <m, a> / |a|^2, 0) a,  rescaled to the length of g_main
"""

from dataclasses import dataclass
from typing import Any

from gradsurgery.hyperparameter import check_fraction, check_share
from gradsurgery.method import Method, Step
from gradsurgery.scalar import Scalar, maximum, ratio, root, tolerance
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class pcd(Method):
    """Follow main, turned just enough to give aux a share ``tau`` of the progress it would make alone.

    Priority-constrained descent, the form for one auxiliary loss. The direction is the one nearest to main's gradient
    in which aux decreases at least ``tau`` times as fast as along its own gradient, both gradients divided by their
    usual length. So it does not depend on the scale of either loss. The squared lengths are averaged including those of
    this step, and corrected for their start at zero.

    Args:
        tau: the share of aux's own progress, from 0 to 1, or a schedule. At 0, aux never increases to first order.
        beta: share of the new squared length in its moving average, in (0, 1], or a schedule. The reference gives the
            decay, 0.999.

    Example:
        >>> pcd(tau=0.3)
        pcd(tau=0.3, beta=0.001)

    Reference: Varam and AlHajri, *Not All Objectives Are Born Equal: Priority-Constrained Descent for Hierarchical
    Multi-Objective Optimization*, TMLR 2026.
    """

    tau: Any
    beta: Any = 0.001

    memory = ("main_square", "aux_square", "mass")

    def __post_init__(self) -> None:
        self._set(tau=check_fraction("tau", self.tau), beta=check_share("beta", self.beta))

    def direction(self, step: Step) -> Vector:
        main, (aux,) = step.main, step.aux
        main_square, aux_square, _ = self.remember(step)
        length_ratio = root(ratio(main_square, aux_square))  # s_main / s_aux, so that main's weight is 1
        progress = ratio(main @ aux, length_ratio * (aux @ aux))  # <m, a> / |a|^2
        direction = main + maximum(self.tau - progress, 0.0) * length_ratio * aux
        squared, whole = direction @ direction, main @ main
        # opposed gradients cancel for tau = 0: what is left is rounding error, which must not be rescaled
        squared = (squared > tolerance(squared) * whole) * squared
        return root(ratio(whole, squared)) * direction

    def remember(self, step: Step) -> tuple[Scalar, ...]:
        main_square, aux_square, mass = step.memory
        old = (1 - self.beta) * mass
        keep = ratio(old, old + self.beta)
        main, (aux,) = step.main, step.aux
        return (
            keep * main_square + (1 - keep) * (main @ main),
            keep * aux_square + (1 - keep) * (aux @ aux),
            old + self.beta,
        )
