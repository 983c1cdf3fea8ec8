"""Training is differentiable: through lam, rho and the gradients of every step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import gradsurgery as gs
import gradsurgery.jax as gsj

GRADIENTS = np.random.default_rng(0).normal(size=(6, 2, 12)) + 0.3


def last_direction(lam, rho, gradients):
    """The direction of the last step, seen from a fixed side."""
    tx = gsj.surgery(gs.bloop(lam=lam, rho=rho))

    def step(state, pair):
        direction, state = tx.update(pair[0], state, aux=pair[1])
        return state, direction

    return jax.lax.scan(step, tx.init(gradients[0, 0]), gradients)[1][-1] @ jnp.arange(12.0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [jax.jacrev, jax.jacfwd], ids=["reverse", "forward"])
def test_derivatives_are_those_of_finite_differences(mode):
    with jax.enable_x64(True):
        derivative = jax.jit(mode(last_direction, argnums=(0, 1, 2)))
        value = jax.jit(last_direction)
        for lam, rho in [(0.5, 0.1), (0.0, 0.1), (0.5, 0.9)]:
            arguments = (jnp.asarray(lam), jnp.asarray(rho), jnp.asarray(GRADIENTS))
            computed = derivative(*arguments)
            directions = (1.0, 1.0, np.random.default_rng(1).normal(size=GRADIENTS.shape))
            for index, direction in enumerate(directions):
                ends = [
                    value(*(x + sign * 1e-6 * direction if k == index else x for k, x in enumerate(arguments)))
                    for sign in (1, -1)
                ]
                assert_allclose(np.sum(computed[index] * direction), (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("zero", [0, 1], ids=["main", "aux"])
def test_the_derivative_through_a_relative_weight_is_finite_at_a_zero_gradient(zero):
    pair = jnp.asarray(GRADIENTS[0], jnp.float32).at[zero].set(0.0)
    tx = gsj.surgery(gs.mixed(lam=gs.relative(0.3)))
    derivative = jax.jacrev(lambda pair: tx.update(pair[0], tx.init(pair[0]), aux=pair[1])[0])(pair)
    assert np.isfinite(derivative).all()
