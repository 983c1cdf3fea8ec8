"""Spectral norms by power iteration on a basis of vectors, warm-started from step to step.

    V <- basis of the span of T(W'W) V,   then the best vector v in it:   |W|_2 = max |W v| / |v|,   u = W v / |W v|

A loss that presses the largest singular value down soon has many of almost the same size, and each step may put
another at the top. One vector would lag behind (by a tenth of the norm, in training runs); a basis holds the
candidates. T is Chebyshev's polynomial, small up to an edge and steep beyond it: it sets singular values that differ by
a fraction e apart as power iteration does in 1/sqrt(e) times as many products. With u and v held fixed, the gradient of
u' W v is u v', which is that of the norm.
"""

import jax
import jax.numpy as jnp

Basis = jax.Array
"""Right vectors, as columns by growing singular value that are orthonormal up to rounding."""

_DEGREE = 6
_EDGE = 0.7  # at least, as a share of the largest eigenvalue: a steeper polynomial would leave one direction in float32


def initial_basis(matrix: jax.Array, columns: int = 24) -> Basis:
    """The basis to start from: the last right singular vectors, at most ``columns``."""
    _, vectors = jnp.linalg.eigh(matrix.T @ matrix)
    return vectors[:, -columns:]


def spectral_norm(matrix: jax.Array, basis: Basis) -> tuple[jax.Array, Basis]:
    """The largest singular value, with its gradient, and the basis to start from next time."""
    held = jax.lax.stop_gradient(matrix)
    gram = held.T @ held
    basis = _orthonormalize(_apply_filter(gram, basis))
    _, vectors = jnp.linalg.eigh(basis.T @ gram @ basis)
    basis = basis @ vectors
    v = basis[:, -1] / jnp.linalg.norm(basis[:, -1])
    u = held @ v
    return (u / jnp.linalg.norm(u)) @ matrix @ v, basis


def _apply_filter(gram: jax.Array, basis: Basis) -> Basis:
    """T(2 gram / edge - 1) basis, with the edge at the least of the basis's eigenvalues."""
    image = gram @ basis
    eigenvalues = jnp.sum(basis * image, axis=0) / jnp.sum(basis**2, axis=0)
    edge = jnp.maximum(jnp.min(eigenvalues), _EDGE * jnp.max(eigenvalues))
    before, now = basis, 2 / edge * image - basis
    for _ in range(_DEGREE - 1):
        before, now = now, 2 * (2 / edge * (gram @ now) - now) - before
    return now


def _orthonormalize(basis: Basis) -> Basis:
    # by Cholesky's factor of the Gram matrix: less exact than a QR decomposition, more than twice as fast. What is not
    # quite orthonormal is put right by the next iteration, and a vector that is a little off changes the norm by the
    # square of that.
    basis = basis / jnp.linalg.norm(basis, axis=0)
    factor = jnp.linalg.cholesky(basis.T @ basis + 1e-5 * jnp.eye(basis.shape[1]))
    return jax.scipy.linalg.solve_triangular(factor, basis.T, lower=True).T
