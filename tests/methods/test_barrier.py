from numpy.testing import assert_allclose

import gradsurgery as gs


def test_by_hand():
    assert_allclose(gs.Reference(gs.barrier())([3.0, 4.0], [-1.0, 2.0]), [-1 + 0.8 * 3, 2 + 0.8 * 4])


def test_another_barrier_function_by_hand():
    step = gs.Reference(gs.barrier(psi=lambda main, aux: 0.0))
    assert_allclose(step([3.0, 4.0], [-1.0, 2.0]), [-1.0, 2.0])
    assert_allclose(step([3.0, 4.0], [-2.0, 1.0]), [-2 + 0.08 * 3, 1 + 0.08 * 4])
