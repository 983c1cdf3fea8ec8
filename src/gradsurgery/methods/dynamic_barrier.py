"""Dynamic barrier, as in the paper's experiments: never let aux push main uphill.

d = mu g_main + lam g_aux,   mu = max(1 - lam <g_main, g_aux> / |g_main|^2, 0)
"""

from dataclasses import dataclass

from gradsurgery.hyperparameter import Hyperparameter, check_rho, check_weight
from gradsurgery.method import Method, Step
from gradsurgery.scalar import minimum, ratio
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class dynamic_barrier(Method):
    """Follow ``lam`` times aux, and add as much of main as it takes for main to decrease at least as fast as alone.

    Dynamic barrier with a weight instead of a barrier function; ``barrier`` is the form of Table 1.

    With a bias-corrected average a of main, which the paper's discussion suggests for every surgery method:

        d = g_main + lam g_aux - min(lam <a, g_aux> / |a|^2, 1) a

    Args:
        lam: weight of the auxiliary loss, at least 0, or ``relative``.
        rho: share of the new gradient in the average, in (0, 1]; None, the paper's choice, uses g_main itself.

    Example:
        >>> dynamic_barrier(lam=0.1)
        dynamic_barrier(lam=0.1, rho=None)

    Reference: Gong et al., *Automatic and Harmless Regularization with Constrained and Lexicographic Optimization: A
    Dynamic Barrier Approach*, NeurIPS 2021; the form is that of section "Baselines" of the Bloop paper.
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
        squared = average @ average
        return main + self.lam * aux - ratio(minimum(self.lam * (aux @ average), squared), squared) * average
