"""Gradients at the edges of float32: huge, tiny, and averages that are barely or almost entirely replaced."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gradsurgery as gs
import gradsurgery.jax as gsj
from tests.jax_front.trees import flat

HUGE = pytest.mark.parametrize(
    ("method", "huge"), [(gs.pcgrad(lam=1.0, rho=0.1), 0), (gs.bloop(lam=(1.0, 1.0)), 1)], ids=repr
)


def draw(count, size=4):
    return jnp.asarray(np.random.default_rng(0).normal(size=(count, size)) + 0.3, jnp.float32)


def run(tx, history):
    """The directions and states of a run."""
    update, state, results = jax.jit(tx.update), tx.init(history[0][0]), []
    for main, *aux in history:
        direction, state = update(main, state, aux=tuple(aux))
        results.append((np.asarray(direction), state))
    return results


@pytest.mark.slow
@HUGE
def test_a_huge_gradient_whose_products_are_all_finite_does_not_enter_its_average(method, huge):
    gradients = draw(1 + method.aux_count)
    outlier = gradients.at[huge].multiply(1e22)
    (_, before), (direction, state), (after, _) = run(gsj.surgery(method), [gradients, outlier, gradients])
    assert np.isnan(direction).all()
    assert_array_equal(flat(state.averages), flat(before.averages))
    assert float(gsj.diagnostics(state)["sound"]) == 0
    (_, _), (undisturbed, _) = run(gsj.surgery(method), [gradients, gradients])
    assert_allclose(after, undisturbed, rtol=1e-5)


@HUGE
def test_training_goes_on_after_a_huge_gradient(method, huge):
    gradients = draw(1 + method.aux_count)
    tx = optax.chain(gsj.surgery(method), optax.apply_if_finite(optax.adam(0.1), max_consecutive_errors=5))
    params, state = jnp.zeros(4), tx.init(jnp.zeros(4))
    for step in range(10):
        main, *aux = gradients.at[huge].multiply(1e22) if step == 1 else gradients
        updates, state = jax.jit(tx.update)(main, state, params, aux=tuple(aux))
        params = optax.apply_updates(params, updates)
    assert np.isfinite(params).all()
    assert (np.abs(params) > 0.5).all()  # Adam moves an element by about 0.1 in each of nine steps


@pytest.mark.parametrize(("main", "aux", "rho", "sound"), [(1e-15, 1e25, 0.1, False), (3e-19, 1e20, 1.0, True)])
def test_a_weight_that_overflows_is_unsound(main, aux, rho, sound):
    """Where |average|^2 underflows, it counts as zero: nothing is rejected, and no weight overflows."""
    small, large = jnp.full(3, main), jnp.full(3, aux)
    (_, before), (direction, state) = run(gsj.surgery(gs.bloop(lam=1.0, rho=rho)), [(small, small), (small, large)])
    assert bool(gsj.diagnostics(state)["sound"]) == sound
    if sound:
        assert_allclose(direction, small + large, rtol=1e-6)
    else:
        assert np.isnan(direction).all()
        assert_array_equal(flat(state.averages), flat(before.averages))
        assert state.mass == before.mass


@pytest.mark.parametrize(("element", "rho"), [(1e-17, 0.01), (1e-13, 1e-6)])
def test_tiny_gradients_are_projected_as_exactly_as_others(element, rho):
    main, aux = element * draw(2, size=1000)
    _, (direction, _) = run(gsj.surgery(gs.bloop(lam=1.0, rho=rho)), [(main, aux), (main, aux)])
    main, aux, direction = (np.asarray(vector, np.float64) for vector in (main, aux, direction))
    left = (direction - main) @ main / np.linalg.norm(aux) / np.linalg.norm(main)
    assert abs(left) < 1e-6


@pytest.mark.parametrize("element", [1e-19, 1e-22])
def test_nothing_is_rejected_where_squares_underflow(element):
    main, aux = element * draw(2, size=1000)
    _, (direction, _) = run(gsj.surgery(gs.bloop(lam=1.0, rho=1.0)), [(main, aux), (main, aux)])
    assert_allclose(direction, main + aux, rtol=1e-5)


def test_the_old_average_keeps_its_digits_where_rho_is_close_to_1():
    first, second = draw(2)
    _, (_, state) = run(gsj.surgery(gs.bloop(lam=1.0, rho=0.999999)), [(1e6 * first, second), (second, second)])
    reference = gs.Reference(gs.bloop(lam=1.0, rho=0.999999))
    for main in (1e6 * first, second):
        reference(np.asarray(main, np.float64), np.asarray(second, np.float64))
    assert_allclose(state.averages[0], reference.state.averages[0] / reference.state.mass, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [1e-2, 1e-4, 1e-6])
def test_rounding_does_not_add_up_in_the_average(rho):
    """The weights of the old average and of the new gradient add up to exactly 1."""
    history, reference = np.random.default_rng(0).normal(size=(2000, 20)).astype(np.float32) + 1, np.zeros(20)
    tx, mass = gsj.surgery(gs.bloop(lam=1.0, rho=rho)), 0.0
    state, _ = jax.lax.scan(lambda state, g: (tx.update(g, state, aux=g)[1], None), tx.init(history[0]), history)
    for gradient in history:
        reference, mass = (1 - rho) * reference + rho * gradient, (1 - rho) * mass + rho
    assert_allclose(state.averages[0], reference / mass, rtol=1e-5)
