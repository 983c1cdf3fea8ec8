"""``gradsurgery.jax`` against ``Reference`` for 100 steps."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import gradsurgery as gs
import gradsurgery.jax as gsj
from tests.jax_front.trees import NESTED, flat, size, unflatten
from tests.methods.catalogue import ALL, every_method


def history(aux_count, length, steps=100, seed=0):
    return np.random.default_rng(seed).normal(size=(steps, 1 + aux_count, length)) + 0.3


@cache
def compiled_run(method):
    """A run as one ``scan``; compiled once for all tests of a method with gradients of the same shapes."""
    tx = gsj.surgery(method)

    def step(state, current):
        direction, state = tx.update(current[0], state, aux=current[1:])
        return state, (direction, state.averages)

    return jax.jit(
        lambda gradients: jax.lax.scan(step, tx.init(jax.tree.map(lambda leaf: leaf[0], gradients[0])), gradients)
    )


def run_jax(method, gradients, like, dtype):
    """All directions and averages of a run, as float64 arrays (step, element).

    Shorter runs are continued to 100 steps: one compilation serves all.
    """
    steps = len(gradients)
    gradients = np.concatenate([gradients, np.repeat(gradients[-1:], 100 - steps, axis=0)])
    stacked = tuple(unflatten(like, gradients[:, k], dtype) for k in range(gradients.shape[1]))
    state, (directions, averages) = compiled_run(method)(stacked)
    assert all(leaf.dtype == dtype for leaf in jax.tree.leaves(directions))
    assert int(state.steps) == 100
    return flat(directions, axes=1)[:steps], [flat(average, axes=1)[:steps] for average in averages], averages


def run_reference(method, gradients):
    step = gs.Reference(method)
    results = [(step(*current), step.state.corrected) for current in gradients]
    return np.array([direction for direction, _ in results]), [
        np.array(average) for average in zip(*(averages for _, averages in results), strict=True)
    ]


def error(results, expected):
    """The largest relative error of a step, in norm."""
    return np.max(np.linalg.norm(results - expected, axis=1) / np.linalg.norm(expected, axis=1))


@every_method
@pytest.mark.parametrize(("dtype", "tolerance"), [(jnp.float64, 1e-12), (jnp.float32, 1e-5)], ids=["f64", "f32"])
def test_agree_for_100_steps(method, aux_count, dtype, tolerance):
    with jax.enable_x64(dtype == jnp.float64):
        gradients = np.asarray(history(aux_count, size(NESTED)), dtype).astype(np.float64)
        directions, averages, _ = run_jax(method, gradients, NESTED, dtype)
    expected_directions, expected_averages = run_reference(method, gradients)
    assert error(directions, expected_directions) < tolerance
    for average, expected in zip(averages, expected_averages, strict=True):
        assert error(average, expected) < tolerance


@every_method
def test_gradients_far_longer_than_their_average_cost_no_digits(method, aux_count):
    """As after many steps in which main's gradient was almost zero."""
    gradients = history(aux_count, size(NESTED), steps=8).astype(np.float32).astype(np.float64)
    gradients[:4] *= 1e-9
    directions, _, _ = run_jax(method, gradients, NESTED, jnp.float32)
    assert error(directions, run_reference(method, gradients)[0]) < 1e-5


@pytest.mark.parametrize(
    ("method", "aux_count"), [ALL[label] for label in ("mixed", "bloop two levels", "gradvac", "pcgrad average")]
)
def test_bfloat16_gradients_have_a_float32_average(method, aux_count):
    gradients = np.asarray(history(aux_count, 40), jnp.bfloat16).astype(np.float64)
    directions, averages, trees = run_jax(method, gradients, np.zeros(40), jnp.bfloat16)
    expected_directions, expected_averages = run_reference(method, gradients)
    assert error(directions, expected_directions) < 2**-8  # only the last rounding, to 8 bits
    for average, expected in zip(averages, expected_averages, strict=True):
        assert error(average, expected) < 1e-5
    assert {leaf.dtype for leaf in jax.tree.leaves(trees)} <= {jnp.dtype(jnp.float32)}


@every_method
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scaling_all_gradients_scales_the_direction_in_float32(method, aux_count, scale):
    gradients = np.asarray(history(aux_count, 11, steps=8), np.float32).astype(np.float64)
    plain, _, _ = run_jax(method, gradients, NESTED, jnp.float32)
    scaled, _, _ = run_jax(method, scale * gradients, NESTED, jnp.float32)
    assert error(scaled, scale * plain) < 1e-5


@pytest.mark.parametrize("scale", [1e-12, 1e12])
@every_method
def test_scaling_all_gradients_scales_the_direction_in_float64(method, aux_count, scale):
    gradients = history(aux_count, 11, steps=10)
    with jax.enable_x64(True):
        plain, _, _ = run_jax(method, gradients, NESTED, jnp.float64)
        scaled, _, _ = run_jax(method, scale * gradients, NESTED, jnp.float64)
    assert error(scaled, scale * plain) < 1e-12


FACTORS = (0.0, 1.0, -1.0, -10.0)


def assert_as_reference_on_a_line(method, aux_count, line, factor, like):
    """Each gradient is ``factor`` times the one before."""
    gradients = np.array([[line * factor**level for level in range(1 + aux_count)]] * 5, np.float32).astype(np.float64)
    directions, _, _ = run_jax(method, gradients, like, jnp.float32)
    expected, _ = run_reference(method, gradients)
    np.testing.assert_allclose(directions, expected, rtol=0, atol=1e-3 * np.abs(line).max())


@every_method
def test_zero_collinear_and_opposed_gradients(method, aux_count):
    for factor in FACTORS:
        for line in (np.linspace(-0.4, 2.0, 11), np.zeros(11)):
            assert_as_reference_on_a_line(method, aux_count, line, factor, NESTED)


@pytest.mark.slow
@every_method
def test_trees_of_one_element(method, aux_count):
    """There all gradients are collinear."""
    for factor in FACTORS:
        assert_as_reference_on_a_line(method, aux_count, np.array([0.7]), factor, np.zeros(1))


@pytest.mark.parametrize("make", [
    lambda value: gs.bloop(lam=value, rho=value),
    lambda value: gs.bloop(lam=(value, gs.relative(value))),
    lambda value: gs.pcd(tau=value, beta=value),
], ids=["bloop", "two aux", "pcd"])  # fmt: skip
def test_the_reference_runs_schedules_of_jax_in_float64(make):
    schedule = optax.linear_schedule(0.5, 0.1, 3)
    method = make(schedule)
    reference, expected = gs.Reference(method), gs.Reference(make(lambda step: float(schedule(step))))
    for gradients in history(method.aux_count, 5, steps=4):
        direction = reference(*gradients)
        assert direction.dtype == np.float64
        np.testing.assert_array_equal(direction, expected(*gradients))
