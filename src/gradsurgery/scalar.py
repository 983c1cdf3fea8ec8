"""Arithmetic on the numbers that inner products give, whatever library they come from.

A formula's numbers are numpy floats, traced jax scalars or 0-d torch tensors. What follows uses operators alone, so
that it runs on all of them, inside jit and without waiting for a device: a choice is a product with a comparison, never
a branch. Products with a comparison are safe while the other factor is finite, so choose between inner products, and
divide afterwards.
"""

from typing import Any, TypeAlias

Scalar: TypeAlias = Any
"""A number of the front end at hand: numpy's, jax's or torch's, or Python's own."""


def ratio(a: Scalar, b: Scalar) -> Scalar:
    """a / b, and 0 where b is 0: the one place that says what 0/0 is.

    Example:
        >>> ratio(3.0, 2.0), ratio(0.0, 0.0)
        (1.5, 0.0)
    """
    return a * (b != 0) / (b + (b == 0))


def minimum(a: Scalar, b: Scalar) -> Scalar:
    """The smaller of two finite numbers; NaN if one is NaN."""
    return (a < b) * a + (a >= b) * b


def maximum(a: Scalar, b: Scalar) -> Scalar:
    """The larger of two finite numbers; NaN if one is NaN."""
    return (a > b) * a + (a <= b) * b


def root(a: Scalar) -> Scalar:
    """The square root, and 0 for a number that rounding has pushed below 0."""
    return maximum(a, 0.0) ** 0.5


def tolerance(a: Scalar) -> float:
    """The part of a squared length that may be rounding error, by the type of ``a``: 1e-12 for float64, else 1e-5."""
    return 1e-12 if _is_float64(a) else 1e-5


def smallest_square(a: Scalar) -> float:
    """The smallest squared length that is not zero, by the type of ``a``: 1e-295 for float64, else 1e-32.

    A sum of squares below it has lost terms to underflow. Its ratio to other inner products would be wrong.
    """
    return 1e-295 if _is_float64(a) else 1e-32


def _is_float64(a: Scalar) -> bool:
    dtype = getattr(a, "dtype", None)
    return dtype is None or dtype.itemsize >= 8
