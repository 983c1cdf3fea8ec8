"""PCGrad: if the gradients conflict, project each on the orthogonal complement of the other.

d = g_main + lam g_aux                                    if <g_main, g_aux> > 0
d = pi(g_main; g_aux) + lam pi(g_aux; g_main)             otherwise
"""

from dataclasses import dataclass

from gradsurgery.hyperparameter import Hyperparameter, check_rho, check_weight
from gradsurgery.method import Method, Step
from gradsurgery.scalar import ratio
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class pcgrad(Method):
    """Follow main + ``lam`` aux; if the gradients conflict, first remove from each what points against the other.

    Projecting conflicting gradients, with a weight as in the paper's experiments; lam = 1 is the original method. An
    average of main replaces g_main in the test for a conflict and in the projection of aux. A zero average conflicts
    with nothing. (Table 1 swaps the two subtracted terms; their sum is right.)

    Args:
        lam: weight of the auxiliary loss, at least 0, or ``relative``.
        rho: share of the new gradient in the average, in (0, 1]; None, the paper's choice, uses g_main itself.

    Example:
        >>> pcgrad(lam=0.1)
        pcgrad(lam=0.1, rho=None)

    Reference: Yu et al., *Gradient Surgery for Multi-Task Learning*, NeurIPS 2020; the form is that of section
    "Baselines" of the Bloop paper.
    """

    lam: Hyperparameter
    rho: Hyperparameter | None = None

    def __post_init__(self) -> None:
        self._set(lam=check_weight(self.lam), rho=check_rho(self.rho))

    @property
    def averages(self) -> int:
        return 0 if self.rho is None else 1

    def direction(self, step: Step) -> Vector:
        main, (aux,), average = step.main, step.aux, step.averages[0]
        conflict = aux @ average < 0
        main_rest = main - ratio(conflict * (main @ aux), aux @ aux) * aux
        aux_rest = aux - ratio(conflict * (aux @ average), average @ average) * average
        return main_rest + self.lam * aux_rest
