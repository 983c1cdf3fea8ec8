"""What a method needs from the passes: its vectors and inner products, worked out once by running it on symbols."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor

from gradsurgery.method import Method
from gradsurgery.plan import basis, required_products
from gradsurgery.relative import relative
from gradsurgery.scalar import Scalar
from gradsurgery.torch.scalars import Pairs, Scalars


class Formula:
    """The vectors and inner products of a method, for a number of auxiliary losses.

    Args:
        method: the method.
        resolved: the method at the current step.
        aux_count: the number of auxiliary losses.
        measure: whether to compute every inner product.
        squares: whether to compute the squared length of every gradient.
    """

    def __init__(self, method: Method, resolved: Method, aux_count: int, *, measure: bool, squares: bool) -> None:
        self._made_for = (method, aux_count, squares)
        self.names = basis(resolved, aux_count)
        """The vectors of a step: its gradients, main first, then the averages."""
        self.gradients = self.names[: 1 + aux_count]
        """The names of the gradients."""
        square_pairs = [(name, name) for name in self.gradients] if squares else []
        self.pairs = tuple(dict.fromkeys([*required_products(resolved, aux_count, measure=measure), *square_pairs]))
        """The inner products, by names."""
        self.places: Pairs = tuple((self.names.index(a), self.names.index(b)) for a, b in self.pairs)
        """The inner products, by positions in ``names``."""
        against = "average" if resolved.averages else "main"
        self.conflicts = {
            "conflict" + name.removeprefix("aux"): self.pairs.index(pair)
            for name in self.gradients[1:]
            for pair in ((name, against), (against, name))
            if pair in self.pairs
        }
        """The inner products whose sign says whether an auxiliary gradient is in conflict."""

    def fits(self, method: Method, aux_count: int, squares: bool) -> bool:
        """Whether this is the formula of this method."""
        made_for, *rest = self._made_for
        return made_for is method and rest == [aux_count, squares]

    def unscale(self, product: Scalar, pair: tuple[str, str], unscale: Scalar) -> Scalar:
        """The inner product of unscaled gradients, from that of scaled ones."""
        for name in pair:
            if name in self.gradients:
                product = product * unscale
        return product


def look_up(method: Method, products: Mapping[tuple[str, str], Scalar], a: str, b: str) -> Scalar:
    """The inner product of two vectors by name; raises if it was not computed."""
    if (a, b) not in products:
        raise ValueError(
            f"{method!r} needs the inner product of {a} and {b}, which it did not need in its first step: a formula "
            "cannot branch on inner products or schedules"
        )
    return products[a, b]


def read_tensors(method: Method, scalars: Scalars) -> Method:
    """The method with tensors replaced by their values, which may change in place before diagnostics are read."""
    values = {name: _read(value, scalars) for name, value in vars(method).items() if _holds_tensor(value)}
    return replace(method, **values) if values else method


def _read(value: Any, scalars: Scalars) -> Any:
    if isinstance(value, tuple):
        return tuple(_read(item, scalars) for item in value)
    if isinstance(value, relative):
        return relative(_read(value.ratio, scalars))
    return scalars.snapshot(value) if isinstance(value, Tensor) else value


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, relative):
        return _holds_tensor(value.ratio)
    return isinstance(value, Tensor) or (isinstance(value, tuple) and any(map(_holds_tensor, value)))
