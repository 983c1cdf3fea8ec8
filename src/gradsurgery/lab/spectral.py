"""Spectral norms by power iteration on a block of vectors, warm-started from step to step.

    V <- orthonormal basis of W' W V,   then the best vector v in its span:   |W|_2 = max |W v|,   u = W v / |W v|

A loss that presses the largest singular value down soon has many of almost the same size, and each step may put
another at the top. One vector would lag behind (by a tenth of the norm, in training runs); a block holds the
candidates. With u and v held fixed, the gradient of u' W v is u v', which is that of the norm.
"""

import jax
import jax.numpy as jnp

Block = jax.Array
"""Right vectors, as orthonormal columns."""


def first_block(matrix: jax.Array, columns: int = 48, iterations: int = 50) -> Block:
    """A block to start from: random vectors, iterated until they have settled."""
    columns = min(columns, *matrix.shape)
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
    return u @ matrix @ v / jnp.linalg.norm(u), block


def _iterated(matrix: jax.Array, block: Block) -> Block:
    return jnp.linalg.qr(matrix.T @ (matrix @ block))[0]
