from numpy.testing import assert_allclose

import gradsurgery as gs


def test_by_hand():
    assert_allclose(gs.Reference(gs.cosine())([3.0, 4.0], [0.0, 5.0]), [3.0, 4.0 + 0.8 * 5])


def test_it_is_main_if_the_gradients_conflict():
    assert_allclose(gs.Reference(gs.cosine())([3.0, 4.0], [0.0, -5.0]), [3.0, 4.0])


def test_each_auxiliary_loss_has_its_own_cosine():
    assert_allclose(gs.Reference(gs.cosine())([3.0, 4.0], [0.0, 5.0], [2.0, 0.0]), [3.0 + 0.6 * 2, 4.0 + 0.8 * 5])
