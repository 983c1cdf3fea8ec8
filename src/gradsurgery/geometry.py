"""Angles and orthogonal projections.

    cos(u, v) = <u, v> / (|u| |v|)
    pi(u; v) = u - <u, v> / |v|^2 v
    pi(u; (v, w, ...)) = u minus its projection on the span of v, w, ...

Runs on symbolic vectors and on 1-d arrays.
"""

from collections.abc import Iterable, Sequence

from gradsurgery.scalar import Scalar, ratio, root, tolerance
from gradsurgery.vector import Vector

Axis = tuple[Vector, Scalar]
"""A vector and its squared length; with length 0 it is skipped in projections."""


def cos(u: Vector, v: Vector) -> Scalar:
    """The cosine of the angle between u and v, or 0 if one of them is zero."""
    return ratio(ratio(u @ v, root(u @ u)), root(v @ v))


def orthogonalize(vectors: Iterable[Vector]) -> list[Axis]:
    """Gram-Schmidt: each vector minus its projection on the span of those before it, with its squared length.

    A vector that is zero or, up to rounding, in the span of those before it gets length 0, so that it rejects nothing.
    """
    axes: list[Axis] = []
    for vector in vectors:
        rest = remove(vector, axes)
        squared = vector @ rest  # = rest @ rest, with fewer terms to round
        whole = vector @ vector
        axes.append((rest, (whole > 0) * (squared > tolerance(squared) * whole) * squared))
    return axes


def remove(u: Vector, axes: Sequence[Axis]) -> Vector:
    """u minus its projection on each of the axes that ``orthogonalize`` returned."""
    rest = u
    for axis, squared in axes:
        rest = rest - ratio(u @ axis, squared) * axis
    return rest


def reject(u: Vector, *onto: Vector) -> Vector:
    """The part of u that is orthogonal to the span of ``onto``: the paper's pi(u; onto).

    Example:
        >>> import numpy as np
        >>> reject(np.array([1.0, 2.0, 3.0]), np.array([2.0, 0.0, 0.0]), np.array([5.0, 0.0, 7.0]))
        array([0., 2., 0.])
    """
    return remove(u, orthogonalize(onto))
