"""Spectral norms by power iteration on a block of vectors, warm-started from step to step.

    V <- basis of the span of W' W V,   then the best vector v in it:   |W|_2 = max |W v| / |v|,   u = W v / |W v|

A loss that presses the largest singular value down soon has many of almost the same size, and each step may put
another at the top. One vector would lag behind (by a tenth of the norm, in training runs); a block holds the
candidates. With u and v held fixed, the gradient of u' W v is u v', which is that of the norm.
"""

import jax
import jax.numpy as jnp

Block = jax.Array
"""Right vectors, as columns that are orthonormal up to rounding."""


def first_block(matrix: jax.Array, iterations: int = 50) -> Block:
    """A block to start from: random vectors, iterated until they have settled.

    The larger the matrix, the more singular values are pressed together: 48 columns, or three eighths of its rank.
    """
    columns = min(max(48, 3 * min(matrix.shape) // 8), *matrix.shape)
    start = jax.random.normal(jax.random.key(0), (matrix.shape[1], columns))
    return jax.lax.fori_loop(0, iterations, lambda _, block: _iterated(matrix, block), start)


def spectral_norm(matrix: jax.Array, block: Block, iterations: int = 2) -> tuple[jax.Array, Block]:
    """The largest singular value, with its gradient, and the block to start from next time."""
    held = jax.lax.stop_gradient(matrix)
    for _ in range(iterations):
        block = _iterated(held, block)
    image = held @ block
    _, vectors = jnp.linalg.eigh(image.T @ image)
    u, v = image @ vectors[:, -1], block @ vectors[:, -1]
    return (u / jnp.linalg.norm(u)) @ matrix @ (v / jnp.linalg.norm(v)), block


def _iterated(matrix: jax.Array, block: Block) -> Block:
    # by Cholesky's factor of the Gram matrix: less exact than a QR decomposition, more than twice as fast. What is not
    # quite orthonormal is put right by the next iteration, and a vector that is a little off changes the norm by the
    # square of that.
    moved = matrix.T @ (matrix @ block)
    gram = moved.T @ moved
    scale = jnp.trace(gram)
    factor = jnp.linalg.cholesky(gram / scale + 1e-6 * jnp.eye(len(gram)))
    return jax.scipy.linalg.solve_triangular(factor, moved.T / jnp.sqrt(scale), lower=True).T
