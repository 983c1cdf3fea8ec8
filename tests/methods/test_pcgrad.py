from numpy.testing import assert_allclose

import gradsurgery as gs


def test_conflicting_gradients_by_hand():
    step = gs.Reference(gs.pcgrad(lam=0.5))
    assert_allclose(step([3.0, 4.0], [-2.0, 1.0]), [2.2 + 0.5 * -1.76, 4.4 + 0.5 * 1.32])


def test_it_is_mixed_if_the_gradients_agree():
    assert_allclose(gs.Reference(gs.pcgrad(lam=0.5))([3.0, 4.0], [-1.0, 2.0]), [2.5, 5.0])


def test_with_an_average_by_hand():
    step = gs.Reference(gs.pcgrad(lam=0.5, rho=0.5))
    assert_allclose(step([2.0, 0.0], [-1.0, 1.0]), [1.5, 0.5])  # a zero average conflicts with nothing
    assert_allclose(step([-1.0, 1.0], [-1.0, 0.0]), [0.0, 1.0])  # in conflict with the average (1, 0), not with main
