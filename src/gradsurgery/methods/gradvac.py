"""GradVac: turn each gradient towards the other until their cosine reaches its moving average.

phi = cos(g_main, g_aux);  if phi < phi_average:
d = g_main + c |g_main| / |g_aux| g_aux  +  g_aux + c |g_aux| / |g_main| g_main
c = (phi_average sqrt(1 - phi^2) - phi sqrt(1 - phi_average^2)) / sqrt(1 - phi_average^2)
"""

from dataclasses import dataclass
from typing import Any

from gradsurgery.geometry import cos
from gradsurgery.hyperparameter import check_share
from gradsurgery.method import Method, Step
from gradsurgery.scalar import Scalar, ratio, root
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class gradvac(Method):
    """Follow the sum of both gradients, each first turned towards the other if they agree less than on average.

    Gradient vaccine: ``pcgrad`` with lam = 1, but the target for the cosine is its moving average instead of 0.

    phi_average starts at 0 and is updated after use: phi_average <- (1 - beta) phi_average + beta phi.

    Table 1 prints only the half for main, without the vector g_aux that the correction multiplies. This is the sum of
    both corrected gradients, as in the reference.

    Args:
        beta: share of the new cosine in its average, in (0, 1], or a schedule.

    Example:
        >>> gradvac()
        gradvac(beta=0.01)

    Reference: Wang et al., *Gradient Vaccine: Investigating and Improving Multi-task Optimization in Massively
    Multilingual Models*, ICLR 2021.
    """

    beta: Any = 0.01

    memory = ("phi_average",)

    def __post_init__(self) -> None:
        self._set(beta=check_share("beta", self.beta))

    def direction(self, step: Step) -> Vector:
        main, (aux,), (target,) = step.main, step.aux, step.memory
        phi = cos(main, aux)
        target_sine = root(1 - target * target)
        turn = (phi < target) * ratio(target * root(1 - phi * phi) - phi * target_sine, target_sine)
        main_length, aux_length = root(main @ main), root(aux @ aux)
        corrected_main = main + turn * ratio(main_length, aux_length) * aux
        corrected_aux = aux + turn * ratio(aux_length, main_length) * main
        return corrected_main + corrected_aux

    def remember(self, step: Step) -> tuple[Scalar, ...]:
        (phi_average,) = step.memory
        return ((1 - self.beta) * phi_average + self.beta * cos(step.main, step.aux[0]),)
