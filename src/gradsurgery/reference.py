"""The slow twin: any method, step by step, on plain numpy arrays in float64.

It runs a method's formula on the arrays themselves, with none of the symbols of ``gradsurgery.plan``, so that the front
ends can be tested against it. Also the quickest way to see what a method does.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradsurgery.method import Method, Step
from gradsurgery.plan import basis, required_products

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ReferenceState:
    """What a method carries from step to step."""

    steps: int
    """Steps so far, unsound ones too."""
    averages: tuple[Array, ...]
    """Moving averages, started at zero, of main and of each level above the last; none without rho."""
    mass: float
    """The moving average of the number 1."""
    memory: tuple[float, ...]
    """The method's own scalars."""

    @property
    def corrected(self) -> tuple[Array, ...]:
        """The averages over their mass, free of the bias of their start; front ends keep these."""
        return tuple(average / (self.mass or 1.0) for average in self.averages)


class Reference:
    """A method at work on numpy arrays.

    Args:
        method: for example ``gradsurgery.bloop(lam=0.1)``.

    Example:
        >>> import gradsurgery as gs
        >>> step = gs.Reference(gs.bloop(lam=0.5, rho=None))
        >>> step([2.0, 0.0], [4.0, 6.0])
        array([2., 3.])
    """

    def __init__(self, method: Method) -> None:
        self.method = method
        self.state = ReferenceState(steps=0, averages=(), mass=0.0, memory=(0.0,) * len(method.memory))

    def __call__(self, main: ArrayLike, *aux: ArrayLike) -> Array:
        """The direction for these gradients, 1-d and of one length; then averages and memory move."""
        self.method.check_aux_count(len(aux))
        gradients = [np.asarray(gradient, dtype=np.float64) for gradient in (main, *aux)]
        shapes = [gradient.shape for gradient in gradients]
        if len(set(shapes)) > 1 or len(shapes[0]) != 1:
            raise ValueError(f"gradients are 1-d arrays of one length, but got shapes {', '.join(map(str, shapes))}")
        with np.errstate(all="ignore"):  # an unsound step ends in NaN, not in a warning
            return self._step(gradients)

    def _step(self, gradients: list[Array]) -> Array:
        now, state = self.method.resolve(self.state.steps), self.state
        averages = state.averages or tuple(np.zeros_like(g) for g in gradients[: now.averages])
        corrected: tuple[Any, ...] = replace(state, averages=averages).corrected
        main, *aux = cast(list[Any], gradients)  # arrays have the operators of a Vector
        step = Step(main, tuple(aux), corrected or (main, *aux)[: now.averaged], state.memory)
        direction = cast(Array, now.direction(step))

        vectors = dict(zip(basis(now, len(gradients) - 1), [*gradients, *averages], strict=True))
        products = [vectors[a] @ vectors[b] for a, b in required_products(now, len(gradients) - 1)]
        sound = bool(np.isfinite(products).all() and np.isfinite(direction).all())
        state = replace(state, steps=state.steps + 1, averages=averages)
        if sound:
            rho = getattr(now, "rho", None) or 0.0
            state = replace(
                state,
                averages=tuple((1 - rho) * a + rho * g for a, g in zip(averages, gradients, strict=False)),
                mass=(1 - rho) * state.mass + rho,
                memory=now.remember(step),
            )
        self.state = state
        return direction if sound else direction + np.nan
