"""Arithmetic on inner products, whatever library they come from.

The scalars of a formula are numpy floats, traced jax scalars or 0-d torch tensors. These functions use only operators,
so they run on all of them, inside jit and without blocking on a device: a choice is a product with a comparison, never
a branch. Such a product is safe only if the other factor is finite, so choose between inner products first, and divide
afterwards.
"""

from typing import Any, TypeAlias

Scalar: TypeAlias = Any
"""A number: of numpy, jax, torch or Python."""


def ratio(a: Scalar, b: Scalar) -> Scalar:
    """a / b, or 0 if b is 0. Every division by something that may be zero goes through here.

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
    """The square root, or 0 for a number that is negative by rounding error. Its derivative at 0 counts as 0."""
    # the root of 1 in place of 0, where the derivative is infinite: 0 times infinity is NaN
    return (a > 0) * ((a > 0) * a + (a <= 0)) ** 0.5


def tolerance(a: Scalar) -> float:
    """The part of a squared length that may be rounding error, by the type of ``a``: 1e-12 for float64, else 1e-5."""
    return 1e-12 if _is_float64(a) else 1e-5


def smallest_square(a: Scalar) -> float:
    """The smallest squared length that does not count as zero, by the type of ``a``: 1e-295 for float64, else 1e-32.

    A sum of squares below it has lost terms to underflow, and ratios of inner products to it would be wrong.
    """
    return 1e-295 if _is_float64(a) else 1e-32


def _is_float64(a: Scalar) -> bool:
    dtype = getattr(a, "dtype", None)
    return dtype is None or dtype.itemsize >= 8
