import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import gradsurgery as gs


def test_by_hand():
    """The first step has s_i = |g_i|, so m = (1, 0), a = (-0.6, 0.8) and c = 0.2 + 0.6."""
    nearest = np.array([1 - 0.8 * 0.6, 0.8 * 0.8])
    expected = 2 * nearest / np.linalg.norm(nearest)
    assert_allclose(gs.Reference(gs.pcd(tau=0.2))([2.0, 0.0], [-3.0, 4.0]), expected)


def test_main_is_followed_where_aux_decreases_enough():
    assert_allclose(gs.Reference(gs.pcd(tau=0.5))([2.0, 0.0], [3.0, 4.0]), [2.0, 0.0])  # <m, a> = 0.6


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0))
def test_aux_progresses_by_tau_and_the_length_is_that_of_main(seed, tau):
    main, aux = np.random.default_rng(seed).normal(size=(2, 5))
    direction = gs.Reference(gs.pcd(tau=tau))(main, aux)
    assert_allclose(np.linalg.norm(direction), np.linalg.norm(main))
    scaled_main, scaled_aux = main / np.linalg.norm(main), aux / np.linalg.norm(aux)
    nearest = scaled_main + max(tau - scaled_main @ scaled_aux, 0) * scaled_aux
    assert nearest @ scaled_aux >= tau - 1e-12
    assert_allclose(direction, np.linalg.norm(main) / np.linalg.norm(nearest) * nearest, atol=1e-12)


@given(st.floats(1e-6, 1e6))
def test_the_scale_of_aux_does_not_matter(scale):
    history = np.random.default_rng(0).normal(size=(5, 2, 3))
    plain, scaled = gs.Reference(gs.pcd(tau=0.3)), gs.Reference(gs.pcd(tau=0.3))
    for main, aux in history:
        assert_allclose(scaled(main, scale * aux), plain(main, aux), rtol=1e-9, atol=1e-9)


def test_lengths_are_averages_that_include_this_step():
    step = gs.Reference(gs.pcd(tau=0.5, beta=0.25))
    step([1.0, 0.0], [0.0, 1.0])
    assert_allclose(step.state.memory, [1.0, 1.0, 0.25])
    step([2.0, 0.0], [0.0, 1.0])
    mass = 0.75 * 0.25 + 0.25
    assert_allclose(step.state.memory, [(0.75 * 0.25 * 1 + 0.25 * 4) / mass, 1.0, mass])


def test_opposed_gradients_leave_nothing_at_tau_0():
    assert_allclose(gs.Reference(gs.pcd(tau=0.0))([0.3, 0.1], [-0.9, -0.3]), [0.0, 0.0])


@pytest.mark.parametrize("tau", [-0.1, 1.1, float("nan")])
def test_tau_is_a_fraction(tau):
    with pytest.raises(ValueError, match="tau must be from 0 to 1; got"):
        gs.pcd(tau=tau)
