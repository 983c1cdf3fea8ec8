"""Mixed training: the weighted sum of the losses, the usual approach.

d = g_main + lam g_aux
"""

from dataclasses import dataclass
from typing import Any

from gradsurgery.hyperparameter import broadcast, check_weights
from gradsurgery.method import Method, Step
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class mixed(Method):
    """Minimise the weighted sum of the losses, main + ``lam`` aux: the usual approach.

    Args:
        lam: weight of the auxiliary losses, at least 0, or ``relative``; a tuple with one weight for each loss.

    Example:
        >>> mixed(lam=0.1)
        mixed(lam=0.1)
    """

    lam: Any

    def __post_init__(self) -> None:
        self._set(lam=check_weights(self.lam))

    @property
    def aux_count(self) -> int | None:
        return len(self.lam) if isinstance(self.lam, tuple) else None

    def direction(self, step: Step) -> Vector:
        direction = step.main
        for lam, aux in zip(broadcast(self.lam, len(step.aux)), step.aux, strict=True):
            direction = direction + lam * aux
        return direction
