"""A weight that means the same on every problem: aux measured in units of main.

lam = ratio |g_main| / |g_aux|
"""

from dataclasses import dataclass
from typing import Self

from gradsurgery import hyperparameter
from gradsurgery.hyperparameter import Hyperparameter
from gradsurgery.scalar import Scalar, ratio, root
from gradsurgery.vector import Vector


@dataclass(frozen=True, repr=False)
class relative(hyperparameter.StepWeight):
    """A value for ``lam``: the length of lam g_aux as a multiple of the length of g_main.

        lam_t = ratio |g_main| / |g_aux|,   with the gradients of step t

    A plain ``lam`` has the unit of |g_main| / |g_aux|, so its useful range differs by orders of magnitude from problem
    to problem. A relative weight has no unit: scaling aux alone changes nothing, and scaling all gradients scales the
    direction. Start with 0.3; 0.03 to 3 is the range to search. If either gradient is zero, lam is 0.

    It costs the inner products <g_main, g_main> and <g_aux, g_aux>, unless the method computes them anyway.

    The lengths are those of the current step, over all parameters of the surgery. Moving averages of the squared
    lengths would need state and lag behind losses whose scale changes; they gave better fronts on one problem and worse
    ones on the next (docs/relative.md). If each loss has its own head, the heads contribute much of both lengths: on
    ``cifar10mnist``, |g_main| / |g_aux| is twice as large over the shared parameters alone. To measure the lengths
    there only, apply a separate method to the trunk: a group in PyTorch, ``optax.masked`` in JAX.

    Args:
        ratio: at least 0, or a schedule ``step -> ratio``. For several auxiliary losses give ``lam`` a tuple with one
            relative or plain weight for each.

    Example:
        >>> import gradsurgery as gs
        >>> gs.bloop(lam=relative(0.3))
        bloop(lam=relative(0.3), rho=0.01)
        >>> gs.Reference(gs.mixed(lam=relative(0.5)))([3.0, 4.0], [0.0, 2.0])     # lam = 0.5 * 5 / 2
        array([3. , 6.5])
    """

    ratio: Hyperparameter

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", hyperparameter.check_ratio(self.ratio))

    def __repr__(self) -> str:
        return f"relative({self.ratio!r})"

    def resolve(self, step: Scalar) -> Self:
        """This weight with a schedule replaced by its value at this step."""
        return type(self)(self.ratio(step)) if callable(self.ratio) else self

    def weigh(self, main: Vector, aux: Vector) -> Scalar:
        return self.ratio * ratio(root(main @ main), root(aux @ aux))
