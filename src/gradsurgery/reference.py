"""``Reference``: any method on plain numpy arrays in float64.

It runs a method's formula on the arrays themselves, without the symbols of ``gradsurgery.plan``, so that the front ends
can be tested against it. It is slow, and the quickest way to see what a method does.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradsurgery.method import Method, Step
from gradsurgery.plan import basis, required_products
from gradsurgery.relative import relative
from gradsurgery.scalar import Scalar, smallest_square

Array = NDArray[np.float64]


class _Array(np.ndarray[Any, Any]):
    """A 1-d array. Its squared length is 0 if it underflows, as in ``gradsurgery.plan``."""

    def __matmul__(self, other: Any) -> Scalar:
        product = np.dot(self, other)
        return product * (product >= smallest_square(product)) if other is self else product


@dataclass(frozen=True)
class ReferenceState:
    """The state of a ``Reference``."""

    steps: int
    """The number of steps so far, including unsound ones."""
    averages: tuple[Array, ...]
    """Moving averages, started at zero, of main and of every auxiliary level but the last; empty without rho."""
    mass: float
    """The moving average of the number 1."""
    memory: tuple[float, ...]
    """The method's own scalars."""

    @property
    def corrected(self) -> tuple[Array, ...]:
        """The averages divided by their mass, which corrects them for their start at zero. Front ends keep these."""
        return tuple(average / (self.mass or 1.0) for average in self.averages)


class Reference:
    """Runs a method on numpy arrays.

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
        """Return the direction for these gradients, 1-d arrays of the same length, then update averages and memory."""
        self.method.check_aux_count(len(aux))
        gradients = [np.asarray(gradient, dtype=np.float64) for gradient in (main, *aux)]
        shapes = [gradient.shape for gradient in gradients]
        if len(set(shapes)) > 1 or len(shapes[0]) != 1:
            raise ValueError(
                f"gradients must be 1-d arrays of the same length; got shapes {', '.join(map(str, shapes))}"
            )
        with np.errstate(all="ignore"):  # an unsound step ends in NaN, not in a warning
            return self._step(gradients)

    def _step(self, gradients: list[Array]) -> Array:
        method, aux_count = _in_floats(self.method.resolve(self.state.steps)), len(gradients) - 1
        averages = self.state.averages or tuple(np.zeros_like(g) for g in gradients[: method.averages])
        state = replace(self.state, steps=self.state.steps + 1, averages=averages)
        # arrays have the operators of Vector
        vectors: list[Any] = [vector.view(_Array) for vector in (*gradients, *state.corrected)]
        main, *others = vectors
        aux, corrected = others[:aux_count], others[aux_count:]
        step = Step(main, tuple(aux), tuple(corrected or vectors), state.memory)
        formula = method.resolve_lam(step)
        direction = cast(Array, np.asarray(formula.direction(step)))

        named = dict(zip(basis(method, aux_count), vectors, strict=True))
        products = [np.dot(named[a], named[b]) for a, b in required_products(method, aux_count)]
        sound = bool(np.isfinite(products).all() and np.isfinite(direction).all())
        if sound:
            rho = method.rho or 0.0
            state = replace(
                state,
                averages=tuple((1 - rho) * a + rho * g for a, g in zip(averages, gradients, strict=False)),
                mass=(1 - rho) * state.mass + rho,
                memory=formula.remember(step),
            )
        self.state = state
        return direction if sound else direction + np.nan


def _in_floats(method: Method) -> Method:
    """The method with a float in place of each scalar array, such as one that a schedule of optax returns."""
    values = {name: _to_float(value) for name, value in vars(method).items()}
    changed = {name: value for name, value in values.items() if value is not getattr(method, name)}
    return replace(method, **changed) if changed else method


def _to_float(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_to_float, value))
    if isinstance(value, relative):
        return relative(_to_float(value.ratio))
    return float(value) if getattr(value, "shape", None) == () else value
