"""MetaBalance: rescale every auxiliary gradient to the length of main's.

d = g_main + |g_main| / |g_aux| g_aux
"""

from dataclasses import dataclass

from gradsurgery.method import Method, Step
from gradsurgery.scalar import ratio, root
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class metabalance(Method):
    """Follow main, and add each auxiliary gradient, rescaled to the length of main's.

    The form of Table 1: that of the reference with relax factor 1, and with the lengths of this step instead of their
    moving averages.

    Example:
        >>> metabalance()
        metabalance()

    Reference: He et al., *MetaBalance: Improving Multi-Task Recommendations via Adapting Gradient Magnitudes of
    Auxiliary Tasks*, WWW 2022.
    """

    @property
    def aux_count(self) -> int | None:
        return None

    def direction(self, step: Step) -> Vector:
        direction = step.main
        for aux in step.aux:
            direction = direction + ratio(root(step.main @ step.main), root(aux @ aux)) * aux
        return direction
