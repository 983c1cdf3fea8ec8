"""MGDA (MTL-MOO in Table 1): the shortest convex combination of the two gradients.

d = w g_main + (1 - w) g_aux,   w = clip(<g_aux - g_main, g_aux> / |g_main - g_aux|^2, 0, 1)
"""

from dataclasses import dataclass

from gradsurgery.method import Method, Step
from gradsurgery.scalar import maximum, minimum, ratio
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class mgda(Method):
    """Follow the shortest weighted mean of both gradients, which decreases both losses and ranks neither.

    Multiple-gradient descent for two losses. It stops where one decreases only if the other rises. Table 1 prints the
    weight with the wrong sign and without the clip. This is the weight of the reference.

    Example:
        >>> mgda()
        mgda()

    Reference: Sener and Koltun, *Multi-Task Learning as Multi-Objective Optimization*, NeurIPS 2018.
    """

    def direction(self, step: Step) -> Vector:
        main, (aux,) = step.main, step.aux
        gap = main - aux
        weight = minimum(maximum(ratio(-(gap @ aux), gap @ gap), 0.0), 1.0)
        return weight * main + (1 - weight) * aux
