import numpy as np
import pytest
from numpy.testing import assert_allclose

import gradsurgery as gs


def test_full_batch_by_hand():
    step = gs.Reference(gs.bloop(lam=0.5, rho=None))
    assert_allclose(step([3.0, 4.0], [-1.0, 2.0]), [3 + 0.5 * -1.6, 4 + 0.5 * 1.2])  # <aux, main> / |main|^2 = 0.2


def test_the_average_is_used_before_it_is_updated():
    step = gs.Reference(gs.bloop(lam=0.5, rho=0.1))
    assert_allclose(step([3.0, 4.0], [1.0, 1.0]), [3.5, 4.5])  # a zero average rejects nothing
    assert_allclose(step.state.averages[0], [0.3, 0.4])
    assert_allclose(step([1.0, 0.0], [1.0, 1.0]), [1 + 0.5 * 0.16, 0.5 * -0.12])  # <aux, (3, 4)> / 25 = 0.28
    assert_allclose(step.state.averages[0], [0.37, 0.36])


def test_two_levels_by_hand():
    step = gs.Reference(gs.bloop(lam=(0.5, 0.1), rho=None))
    assert_allclose(step([1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 2.0, 3.0]), [1.0, 0.5, 0.3])


def test_two_levels_with_averages_by_hand():
    step = gs.Reference(gs.bloop(lam=(0.5, 0.1), rho=1.0))
    main, aux, aux2 = np.eye(3)
    assert_allclose(step(main, main + aux, aux2), main + 0.5 * (main + aux) + 0.1 * aux2)
    assert_allclose(step(aux2, main + 2 * aux2, [1.0, 2.0, 3.0]), aux2 + 0.5 * 2 * aux2 + 0.1 * 3 * aux2)
    assert len(step.state.averages) == 2  # of main and of the first level; the last level needs none


def test_a_level_in_the_span_of_those_above_rejects_nothing():
    step = gs.Reference(gs.bloop(lam=(1.0, 1.0), rho=None))
    main, third = np.array([1.0, 2.0, 3.0]) / 7, np.array([1.0, 0.0, 0.0])
    above = gs.reject(third, main)
    for second in (np.zeros(3), main, -3e6 * main, main * (1 + 1e-15)):
        assert_allclose(step(main, second, third), main + above, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float64, 1e-12)])
def test_the_tolerance_for_a_dependent_level_depends_on_the_type(dtype, tolerance):
    """A level rejects if the squared length of its orthogonal part, here ``share``, is above the tolerance."""
    main, aside, third = np.eye(3, dtype=dtype)[0], np.eye(3, dtype=dtype)[1], np.ones(3, dtype=dtype)
    for share, rejects in ((tolerance / 10, False), (tolerance * 10, True)):
        nearly_main = main + dtype(np.sqrt(share)) * aside
        expected = [0, 0, 1] if rejects else [0, 1, 1]
        assert_allclose(gs.reject(third, main, nearly_main), expected, atol=0.05)


def test_zero_start_and_bias_correction_give_the_same_directions():
    """The projection does not depend on the length of the average."""
    rng = np.random.default_rng(0)
    step, average, rho = gs.Reference(gs.bloop(lam=0.5, rho=0.1)), np.zeros(5), 0.1
    for count in range(20):
        main, aux = rng.normal(size=(2, 5))
        corrected = average / (1 - (1 - rho) ** count) if count else average
        assert_allclose(step(main, aux), main + 0.5 * gs.reject(aux, corrected), rtol=1e-12)
        average = (1 - rho) * average + rho * main
