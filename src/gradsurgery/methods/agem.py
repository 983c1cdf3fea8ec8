"""A-GEM: follow main, but never push aux uphill.

d = g_main - min(<g_main, g_aux>, 0) / |g_aux|^2 g_aux
"""

from dataclasses import dataclass

from gradsurgery.method import Method, Step
from gradsurgery.scalar import minimum, ratio
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class agem(Method):
    """Follow main, without the part of its gradient that would increase aux.

    Averaged gradient episodic memory: aux is the loss on old tasks, which main must not increase.

    Example:
        >>> agem()
        agem()

    Reference: Chaudhry et al., *Efficient Lifelong Learning with A-GEM*, ICLR 2019.
    """

    def direction(self, step: Step) -> Vector:
        main, (aux,) = step.main, step.aux
        return main - ratio(minimum(main @ aux, 0.0), aux @ aux) * aux
