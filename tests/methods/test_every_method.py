"""Properties of every method. A new method joins by being in ``METHODS``."""

from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import gradsurgery as gs
from gradsurgery.plan import required_products
from tests.methods.catalogue import ALL

every_method = pytest.mark.parametrize(("method", "aux_count"), ALL.values(), ids=ALL)


def directions(method, history):
    step = gs.Reference(method)
    return np.array([step(*gradients) for gradients in history])


@every_method
@given(seed=st.integers(0, 2**32 - 1), exponent=st.floats(-12, 12), size=st.integers(1, 8))
def test_scaling_all_gradients_scales_the_direction(method, aux_count, seed, exponent, size):
    history = np.random.default_rng(seed).normal(size=(4, 1 + aux_count, size))
    plain, scaled = directions(method, history), directions(method, 10**exponent * history)
    # gradvac's root of 1 - φ² loses half of the digits where the gradients are nearly parallel
    tolerance = 1e-7 if isinstance(method, gs.gradvac) else 1e-9
    scale = 10**exponent
    assert_allclose(scaled, scale * plain, rtol=tolerance, atol=tolerance * scale * np.abs(history).max())


@every_method
def test_zero_gradients_give_finite_directions(method, aux_count):
    rng = np.random.default_rng(0)
    for present in np.ndindex(*(2,) * (1 + aux_count)):
        history = rng.normal(size=(5, 1 + aux_count, 3)) * np.array(present)[:, None]
        results = directions(method, history)
        assert np.isfinite(results).all()
        if not any(present):
            assert not results.any()


@every_method
@pytest.mark.parametrize("factor", [1.0, -1.0, 1e-9, -1e9])
def test_collinear_gradients_give_a_finite_direction_on_their_line(method, aux_count, factor):
    line = np.array([3.0, -4.0, 12.0]) / 13
    history = [[line * factor**level for level in range(1 + aux_count)]] * 5
    for direction in directions(method, history):
        assert np.isfinite(direction).all()
        assert_allclose(direction, (direction @ line) * line, rtol=1e-9, atol=1e-9 * max(1.0, abs(factor) ** aux_count))


@every_method
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_unsound_step_changes_no_state_and_returns_nan(method, aux_count, bad):
    rng = np.random.default_rng(0)
    for place in range(1 + aux_count):
        gradients = rng.normal(size=(1 + aux_count, 4))
        gradients[place, 2] = bad
        assert_unsound(method, rng.normal(size=(1 + aux_count, 4)), gradients)


@every_method
def test_a_step_whose_inner_products_overflow_is_unsound(method, aux_count):
    if required_products(method, aux_count):
        rng = np.random.default_rng(0)
        assert_unsound(method, *rng.normal(size=(2, 1 + aux_count, 4)) * np.array([1.0, 1e200]).reshape(2, 1, 1))


def assert_unsound(method, first, second):
    step = gs.Reference(method)
    step(*first)
    before = step.state
    assert not np.isfinite(step(*second)).all()
    assert step.state.steps == before.steps + 1
    assert_array_equal(step.state.averages, before.averages)
    assert (step.state.mass, step.state.memory) == (before.mass, before.memory)


@every_method
def test_a_wrong_number_of_auxiliary_gradients_is_refused(method, aux_count):
    gradients = [[1.0]] * (2 + aux_count)
    if method.aux_count is None:
        gs.Reference(method)(*gradients)
    else:
        with pytest.raises(ValueError, match=rf"takes {aux_count} auxiliary gradients?; got {aux_count + 1}"):
            gs.Reference(method)(*gradients)


@every_method
def test_no_auxiliary_gradient_is_refused(method, aux_count):
    with pytest.raises(ValueError, match="at least one auxiliary loss; got none"):
        gs.Reference(method)([1.0])


def test_gradients_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match=r"1-d arrays of the same length; got shapes \(2,\), \(3,\)"):
        gs.Reference(gs.mixed(lam=1.0))([1.0, 2.0], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("name", gs.METHODS)
def test_a_method_is_a_value(name):
    method, _ = ALL[name]
    assert method == gs.METHODS[name](**vars(method))
    assert method.name == name == repr(method).partition("(")[0]
    with pytest.raises(FrozenInstanceError):
        method.lam = 2.0


def test_a_new_method_may_have_rho_as_a_field_without_a_default():
    @dataclass(frozen=True)
    class projected(gs.Method):
        lam: float
        rho: float
        averages = 1

        def direction(self, step):
            return step.main + self.lam * gs.reject(step.aux[0], step.averages[0])

    new, bloop = gs.Reference(projected(lam=0.5, rho=0.1)), gs.Reference(gs.bloop(lam=0.5, rho=0.1))
    for gradients in np.random.default_rng(0).normal(size=(3, 2, 4)):
        assert_allclose(new(*gradients), bloop(*gradients))


def test_the_methods_of_table_1_are_in_its_order():
    table = [
        "bloop", "mixed", "agem", "dynamic_barrier", "barrier", "mgda", "cosine", "gradvac", "pcgrad", "metabalance",
    ]  # fmt: skip
    assert [name for name in gs.METHODS if name in table] == table
