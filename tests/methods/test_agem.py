from numpy.testing import assert_allclose

import gradsurgery as gs


def test_in_conflict_by_hand():
    assert_allclose(gs.Reference(gs.agem())([3.0, 4.0], [-2.0, 1.0]), [3 + 0.4 * -2, 4 + 0.4 * 1])


def test_in_agreement_it_is_main():
    assert_allclose(gs.Reference(gs.agem())([3.0, 4.0], [-1.0, 2.0]), [3.0, 4.0])
