"""Vectors known only by their inner products.

A method is a linear combination of a few vectors, the gradients of one step and their averages, whose coefficients
depend only on inner products. So a formula runs on symbols: a ``Vector`` is its weights over the step's basis, ``@`` is
an inner product, and no array is touched. A front end computes the inner products, and one linear combination at the
end.

    >>> gram = Gram(["main", "aux"], lambda a, b: {"main main": 4.0, "main aux": 2.0}[f"{a} {b}"])
    >>> main, aux = gram.vector("main"), gram.vector("aux")
    >>> (aux - (main @ aux) / (main @ main) * main).weights
    {'aux': 1, 'main': -0.5}
    >>> gram.products
    {('main', 'aux'): 2.0, ('main', 'main'): 4.0}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gradsurgery.scalar import Scalar

Pair = tuple[str, str]


class Gram:
    """The inner products of a step's basis. Each is computed by ``dot`` when a formula first needs it, then cached.

    Args:
        basis: the names of the vectors that the front end holds.
        dot: the inner product of two of them, by name, in the order of ``basis``.
    """

    def __init__(self, basis: Sequence[str], dot: Callable[[str, str], Scalar]) -> None:
        self.products: dict[Pair, Scalar] = {}
        self._index = {name: index for index, name in enumerate(basis)}
        self._dot = dot

    def vector(self, name: str) -> Vector:
        """The basis vector of this name."""
        return Vector({name: 1}, self)

    def product(self, a: str, b: str) -> Scalar:
        """The inner product of two basis vectors."""
        pair = (a, b) if self._index[a] <= self._index[b] else (b, a)
        if pair not in self.products:
            self.products[pair] = self._dot(*pair)
        return self.products[pair]


class Vector:
    """A linear combination of the basis of one step, with ``+``, ``-``, scalar ``*``, and ``@`` for inner products."""

    __slots__ = ("_gram", "weights")
    __array_ufunc__ = None  # numpy scalar * Vector goes to __rmul__

    def __init__(self, weights: Mapping[str, Scalar], gram: Gram) -> None:
        self.weights = weights
        self._gram = gram

    def __add__(self, other: Vector) -> Vector:
        weights = dict(self.weights)
        for name, weight in other.weights.items():
            weights[name] = weights[name] + weight if name in weights else weight
        return Vector(weights, self._gram)

    def __mul__(self, scalar: Scalar) -> Vector:
        return Vector({name: scalar * weight for name, weight in self.weights.items()}, self._gram)

    __rmul__ = __mul__

    def __neg__(self) -> Vector:
        return -1 * self

    def __sub__(self, other: Vector) -> Vector:
        return self + -other

    def __matmul__(self, other: Vector) -> Scalar:
        return sum(
            weight * (other_weight * self._gram.product(name, other_name))
            for name, weight in self.weights.items()
            for other_name, other_weight in other.weights.items()
        )

    def __repr__(self) -> str:
        return " + ".join(f"{weight} {name}" for name, weight in self.weights.items())
