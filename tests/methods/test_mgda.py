from numpy.testing import assert_allclose

import gradsurgery as gs


def test_a_combination_by_hand():
    assert_allclose(gs.Reference(gs.mgda())([2.0, 0.0], [0.0, 1.0]), [0.4, 0.8])


def test_it_is_the_shorter_gradient_if_no_combination_is_shorter():
    assert_allclose(gs.Reference(gs.mgda())([1.0, 0.0], [3.0, 0.0]), [1.0, 0.0])
    assert_allclose(gs.Reference(gs.mgda())([3.0, 0.0], [1.0, 0.0]), [1.0, 0.0])


def test_it_stops_if_the_gradients_are_opposed():
    assert_allclose(gs.Reference(gs.mgda())([1.0, 0.0], [-3.0, 0.0]), [0.0, 0.0], atol=1e-15)
