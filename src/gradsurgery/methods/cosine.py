"""Cosine similarity: weigh aux by how much it agrees with main.

d = g_main + max(cos(g_main, g_aux), 0) g_aux
"""

from dataclasses import dataclass

from gradsurgery.geometry import cos
from gradsurgery.method import Method, Step
from gradsurgery.scalar import maximum
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class cosine(Method):
    """Follow main, and add each auxiliary gradient times its cosine with main's, or nothing if that is negative.

    Example:
        >>> cosine()
        cosine()

    Reference: Du et al., *Adapting Auxiliary Losses Using Gradient Similarity*, 2018.
    """

    @property
    def aux_count(self) -> int | None:
        return None

    def direction(self, step: Step) -> Vector:
        direction = step.main
        for aux in step.aux:
            direction = direction + maximum(cos(step.main, aux), 0.0) * aux
        return direction
