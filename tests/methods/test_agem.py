from numpy.testing import assert_allclose

import gradsurgery as gs


def test_conflicting_gradients_by_hand():
    assert_allclose(gs.Reference(gs.agem())([3.0, 4.0], [-2.0, 1.0]), [3 + 0.4 * -2, 4 + 0.4 * 1])


def test_it_is_main_if_the_gradients_agree():
    assert_allclose(gs.Reference(gs.agem())([3.0, 4.0], [-1.0, 2.0]), [3.0, 4.0])
