"""Bloop: follow main, plus lam times the part of aux that does not affect main.

    d = g_main + lam pi(g_aux; average),   average <- (1 - rho) average + rho g_main

where pi(u; v) is the part of u orthogonal to v.
"""

from dataclasses import dataclass
from typing import Any

from gradsurgery.geometry import orthogonalize, remove
from gradsurgery.hyperparameter import Hyperparameter, broadcast, check_rho, check_weights
from gradsurgery.method import Method, Step
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class bloop(Method):
    """Follow main, and add ``lam`` times the part of aux's gradient that is orthogonal to main's average gradient.

    Bilevel optimisation with orthogonal projection: equations 3 and 4 of the paper, and its multi-level rule.

        d = g_main + lam_1 pi(g_aux1; m) + lam_2 pi(g_aux2; (m, a_1)) + ...

    where m, a_1, ... are the moving averages of main and of every level but the last, before this step. They start at
    zero, and a zero average rejects nothing, so the first step is g_main + lam g_aux. (The authors' code updates the
    average before it projects. We follow their Algorithm 1 and update it afterwards, which keeps the direction
    unbiased.)

    Args:
        lam: weight of the auxiliary loss, at least 0, or ``relative``; a tuple for several losses, most important
            first.
        rho: share of the new gradient in the average, in (0, 1]. The average must keep up with the parameters, so a
            larger learning rate needs a larger rho. None projects on the gradients of this step, the full-batch rule,
            which under gradient noise approaches mixed training.

    The paper's expected decrease of main with the EMA has a misprint: its last term is -eta lam <pi, g_main>.

    Example:
        >>> bloop(lam=0.1)
        bloop(lam=0.1, rho=0.01)
        >>> bloop(lam=(0.1, 0.01), rho=None).aux_count
        2

    Reference: Hsieh et al., *Careful with that Scalpel: Improving Gradient Surgery with an EMA*, ICML 2024.
    """

    lam: Any
    rho: Hyperparameter | None = 0.01

    def __post_init__(self) -> None:
        self._set(lam=check_weights(self.lam), rho=check_rho(self.rho))

    @property
    def aux_count(self) -> int:
        return len(broadcast(self.lam, 1))

    @property
    def averages(self) -> int:
        return 0 if self.rho is None else self.aux_count

    def direction(self, step: Step) -> Vector:
        axes = orthogonalize(step.averages[: self.aux_count])
        direction = step.main
        for level, (lam, aux) in enumerate(zip(broadcast(self.lam, 1), step.aux, strict=True), start=1):
            direction = direction + lam * remove(aux, axes[:level])
        return direction
