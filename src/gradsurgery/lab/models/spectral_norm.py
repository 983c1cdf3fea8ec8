"""Spectral norms by power iteration on a block of vectors, warm-started from step to step.

    V <- basis of the span of T(W'W) V,   then the best vector v in it:   |W|_2 = max |W v| / |v|,   u = W v / |W v|

A loss that presses the largest singular value down soon has many of almost the same size, and each step may put
another at the top. One vector would lag behind (by a tenth of the norm, in training runs); a block holds the
candidates. T is Chebyshev's polynomial, small up to an edge and steep beyond it: it sets singular values that differ by
a fraction e apart as power iteration does in 1/sqrt(e) times as many products. With u and v held fixed, the gradient of
u' W v is u v', which is that of the norm.
"""

import jax
import jax.numpy as jnp

Block = jax.Array
"""Right vectors, as columns by growing singular value that are orthonormal up to rounding."""

_DEGREE = 6
_EDGE = 0.7  # at least, as a share of the largest eigenvalue: a steeper polynomial would leave one direction in float32


def first_block(matrix: jax.Array, columns: int = 24) -> Block:
    """The block to start from: the last right singular vectors, at most ``columns``."""
    _, vectors = jnp.linalg.eigh(matrix.T @ matrix)
    return vectors[:, -columns:]


def spectral_norm(matrix: jax.Array, block: Block) -> tuple[jax.Array, Block]:
    """The largest singular value, with its gradient, and the block to start from next time."""
    held = jax.lax.stop_gradient(matrix)
    gram = held.T @ held
    block = _orthonormal(_filtered(gram, block))
    _, vectors = jnp.linalg.eigh(block.T @ gram @ block)
    block = block @ vectors
    v = block[:, -1] / jnp.linalg.norm(block[:, -1])
    u = held @ v
    return (u / jnp.linalg.norm(u)) @ matrix @ v, block


def _filtered(gram: jax.Array, block: Block) -> Block:
    """T(2 gram / edge - 1) block, with the edge at the least of the block's eigenvalues."""
    image = gram @ block
    eigenvalues = jnp.sum(block * image, axis=0) / jnp.sum(block**2, axis=0)
    edge = jnp.maximum(jnp.min(eigenvalues), _EDGE * jnp.max(eigenvalues))
    before, now = block, 2 / edge * image - block
    for _ in range(_DEGREE - 1):
        before, now = now, 2 * (2 / edge * (gram @ now) - now) - before
    return now


def _orthonormal(block: Block) -> Block:
    # by Cholesky's factor of the Gram matrix: less exact than a QR decomposition, more than twice as fast. What is not
    # quite orthonormal is put right by the next iteration, and a vector that is a little off changes the norm by the
    # square of that.
    block = block / jnp.linalg.norm(block, axis=0)
    factor = jnp.linalg.cholesky(block.T @ block + 1e-5 * jnp.eye(block.shape[1]))
    return jax.scipy.linalg.solve_triangular(factor, block.T, lower=True).T
