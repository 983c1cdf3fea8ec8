from numpy.testing import assert_allclose

import gradsurgery as gs


def test_by_hand():
    assert_allclose(gs.Reference(gs.metabalance())([3.0, 4.0], [0.0, 2.0]), [3.0, 4.0 + 5.0])


def test_each_auxiliary_gradient_gets_the_length_of_main():
    step = gs.Reference(gs.metabalance())
    assert_allclose(step([3.0, 4.0], [0.0, 2.0], [0.0, 0.0], [1e-9, 0.0]), [3.0 + 5.0, 4.0 + 5.0])
