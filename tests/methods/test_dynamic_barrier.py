from numpy.testing import assert_allclose

import gradsurgery as gs


def test_below_the_barrier_by_hand():
    step = gs.Reference(gs.dynamic_barrier(lam=0.5))
    assert_allclose(step([3.0, 4.0], [-1.0, 2.0]), [0.9 * 3 - 0.5, 0.9 * 4 + 1.0])


def test_main_is_left_out_if_aux_alone_decreases_it_enough():
    step = gs.Reference(gs.dynamic_barrier(lam=10.0))
    assert_allclose(step([3.0, 4.0], [-1.0, 2.0]), [-10.0, 20.0])


def test_with_an_average_by_hand():
    step = gs.Reference(gs.dynamic_barrier(lam=1.0, rho=0.5))
    assert_allclose(step([2.0, 0.0], [1.0, 1.0]), [3.0, 1.0])
    assert_allclose(step.state.averages[0] / step.state.mass, [2.0, 0.0])
    assert_allclose(step([0.0, 1.0], [6.0, 1.0]), [6.0 - 2.0, 2.0])  # min(12 / 4, 1) of the bias-corrected (2, 0)
