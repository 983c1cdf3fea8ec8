"""Cautious weight decay, a baseline of ``weights`` alone: it needs the signs of elements, not inner products.

u = the update of SGD with main's gradient
theta <- theta - eta (u + lam [u theta >= 0] theta),   element by element
"""

from dataclasses import dataclass
from typing import Any

from gradsurgery.hyperparameter import check_weight
from gradsurgery.method import Method, Step
from gradsurgery.relative import relative
from gradsurgery.vector import Vector


@dataclass(frozen=True)
class cautious(Method):
    """Main's gradient; the optimiser of ``weights`` then decays the weights that its update shrinks anyway.

    Args:
        lam: the strength of the decay, at least 0; a number, as no gradient is weighted.

    Example:
        >>> cautious(lam=0.1)
        cautious(lam=0.1)

    Reference: Chen et al., *Cautious Weight Decay*, 2025.
    """

    lam: Any

    def __post_init__(self) -> None:
        if isinstance(self.lam, relative):
            raise ValueError(f"lam of cautious must be a number, the strength of the decay; got {self.lam!r}")
        self._set(lam=check_weight(self.lam))

    def direction(self, step: Step) -> Vector:
        return step.main
