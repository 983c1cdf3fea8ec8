"""Spectral norms by power iteration, compared with the SVD."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gradsurgery.paper.models.spectral_norm import initial_basis, spectral_norm
from tests.paper.runs import build, make_run


def test_gradient_is_that_of_the_norm():
    matrix = jax.random.normal(jax.random.key(0), (5, 3))
    basis = initial_basis(matrix)
    gradient = jax.grad(lambda m: spectral_norm(m, basis)[0])(matrix)
    left, _, right = np.linalg.svd(np.asarray(matrix))
    np.testing.assert_allclose(gradient, np.outer(left[:, 0], right[0]), atol=1e-4)


@pytest.mark.slow
def test_norm_follows_a_matrix_whose_singular_values_are_pushed_together():
    """Adam on a noisy quadratic loss and lam log |W|: the larger lam, the more singular values compete for the top."""
    start = jax.random.normal(jax.random.key(0), (128, 64)) / 8
    optimiser = optax.adam(3e-3)

    def loss(matrix, basis, key, lam):
        norm, basis = spectral_norm(matrix, basis)
        noise = jax.random.normal(key, matrix.shape) / 10
        return jnp.sum((matrix - start - noise) ** 2) / 2 + lam * jnp.log(norm), basis

    @jax.jit
    def train(lam):
        def step(carry, key):
            matrix, basis, state = carry
            gradient, basis = jax.grad(loss, has_aux=True)(matrix, basis, key, lam)
            updates, state = optimiser.update(gradient, state)
            matrix = optax.apply_updates(matrix, updates)
            return (matrix, basis, state), (matrix, spectral_norm(matrix, basis)[0])

        keys = jax.random.split(jax.random.key(1), 200)
        return jax.lax.scan(step, (start, initial_basis(start), optimiser.init(start)), keys)[1]

    for lam in (1.0, 30.0, 300.0):
        matrices, norms = (np.asarray(values)[::10] for values in train(lam))
        singular_values = np.linalg.svd(matrices, compute_uv=False)
        np.testing.assert_allclose(norms, singular_values[:, 0], rtol=1e-4)
    assert singular_values[-1, 1] > 0.9 * singular_values[-1, 0]


@pytest.mark.slow
def test_basis_stays_orthonormal_while_singular_values_decay_quickly():
    left = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 30)))[0]
    right = np.linalg.qr(np.random.default_rng(1).normal(size=(30, 30)))[0]
    matrix = jnp.asarray(left * 0.8 ** np.arange(30) @ right, jnp.float32)
    basis = initial_basis(matrix)
    for _ in range(5):
        norm, basis = spectral_norm(matrix, basis)
    assert float(norm) == pytest.approx(1, rel=1e-5)
    np.testing.assert_allclose(basis.T @ basis, np.eye(24), atol=1e-2)


@pytest.mark.slow
def test_norms_follow_the_weights_of_a_network_in_training():
    run = make_run("lipschitz", method="mixed", lam=1.0, epochs=12)
    task = build(run)
    state, _ = task.start(run)
    compiled = jax.jit(spectral_norm)
    for chunk in range(task.chunks):
        state, _ = task.advance(run, state, chunk)
        for layer, basis in zip(state.params, state.extra, strict=True):
            exact = np.linalg.svd(np.asarray(layer["weight"]), compute_uv=False)[0]
            assert float(compiled(layer["weight"], basis)[0]) == pytest.approx(exact, rel=1e-4)
