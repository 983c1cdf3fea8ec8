from numpy.testing import assert_allclose

import gradsurgery as gs


def test_by_hand():
    assert_allclose(gs.Reference(gs.mixed(lam=0.5))([3.0, 4.0], [-2.0, 1.0]), [2.0, 4.5])


def test_lam_is_shared_or_given_for_each_loss():
    gradients = [1.0, 0.0], [10.0, 0.0], [0.0, 10.0]
    assert_allclose(gs.Reference(gs.mixed(lam=0.5))(*gradients), [6.0, 5.0])
    assert_allclose(gs.Reference(gs.mixed(lam=(0.5, 0.1)))(*gradients), [6.0, 1.0])
