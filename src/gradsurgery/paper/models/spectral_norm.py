"""Spectral norms by power iteration on a block of vectors, warm-started from step to step.

    V <- orthonormal basis of the span of T(W'W) V,   v = the vector in it that maximises |W v| / |v|
    u = W v / |W v|,   |W|_2 = u' W v

A loss that pushes the largest singular value down soon makes many of them almost equal, and the largest changes from
step to step. A single vector would lag behind (by a tenth of the norm in training runs); a block contains all
candidates. T is a Chebyshev polynomial, small below an edge and steep above it: singular values that differ by a
fraction e are separated in sqrt(e) times as many products as plain power iteration takes. With u and v held constant,
the gradient of u' W v is u v', which is the gradient of the norm.
"""

import jax
import jax.numpy as jnp

Basis = jax.Array
"""Estimates of the top right singular vectors: columns, orthonormal up to rounding, largest singular value last."""

_DEGREE = 6
_EDGE = 0.7
"""Lower bound of the edge, relative to the largest eigenvalue: a steeper polynomial loses directions in float32."""


def initial_basis(matrix: jax.Array, columns: int = 24) -> Basis:
    """Return the exact top right singular vectors, at most ``columns``, to start from."""
    _, vectors = jnp.linalg.eigh(matrix.T @ matrix)
    return vectors[:, -columns:]


def spectral_norm(matrix: jax.Array, basis: Basis) -> tuple[jax.Array, Basis]:
    """Return the largest singular value, which is differentiable, and the basis for the next step."""
    constant = jax.lax.stop_gradient(matrix)
    gram = constant.T @ constant
    basis = _orthonormalize(_apply_filter(gram, basis))
    _, vectors = jnp.linalg.eigh(basis.T @ gram @ basis)
    basis = basis @ vectors
    v = basis[:, -1] / jnp.linalg.norm(basis[:, -1])
    u = constant @ v
    return (u / jnp.linalg.norm(u)) @ matrix @ v, basis


def _apply_filter(gram: jax.Array, basis: Basis) -> Basis:
    """Return T(2 gram / edge - 1) basis, with the edge at the smallest eigenvalue in the basis."""
    image = gram @ basis
    eigenvalues = jnp.sum(basis * image, axis=0) / jnp.sum(basis**2, axis=0)
    edge = jnp.maximum(jnp.min(eigenvalues), _EDGE * jnp.max(eigenvalues))
    previous, current = basis, 2 / edge * image - basis
    for _ in range(_DEGREE - 1):
        previous, current = current, 2 * (2 / edge * (gram @ current) - current) - previous
    return current


def _orthonormalize(basis: Basis) -> Basis:
    # Cholesky of the Gram matrix: less accurate than QR, but more than twice as fast. The next iteration corrects the
    # error, and an error in v changes the norm only to second order.
    basis = basis / jnp.linalg.norm(basis, axis=0)
    factor = jnp.linalg.cholesky(basis.T @ basis + 1e-5 * jnp.eye(basis.shape[1]))
    return jax.scipy.linalg.solve_triangular(factor, basis.T, lower=True).T
