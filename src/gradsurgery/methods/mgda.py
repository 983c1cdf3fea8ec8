"""MGDA (the table's MTL-MOO): the shortest vector between the two gradients.

d = w g_main + (1 - w) g_aux,   w = clip(<g_aux - g_main, g_aux> / |g_main - g_aux|^2, 0, 1)
"""

from dataclasses import dataclass

from gradsurgery.method import Method, Step
from gradsurgery.scalar import maximum, minimum, ratio
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class mgda(Method):
    """Multiple-gradient descent for two losses: descends both, or stops where one could fall only if the other rose.

    Table 1 prints the weight with its sign turned and without the clip; this is its source's.

    Example:
        >>> mgda()
        mgda()

    Reference: Sener and Koltun, *Multi-Task Learning as Multi-Objective Optimization*, NeurIPS 2018.
    """

    def direction(self, step: Step) -> Vector:
        main, (aux,) = step.main, step.aux
        apart = main - aux
        share = minimum(maximum(ratio(-(apart @ aux), apart @ apart), 0.0), 1.0)
        return share * main + (1 - share) * aux
