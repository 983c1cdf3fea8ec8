"""Steps at the edge of float64: one bad step changes no later one. The front ends have the same tests in float32."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gradsurgery as gs

GRADIENTS = np.random.default_rng(0).normal(size=(3, 4)) + 0.3


@pytest.mark.parametrize(
    ("method", "huge"), [(gs.pcgrad(lam=1.0, rho=0.1), 0), (gs.bloop(lam=(1.0, 1.0)), 1)], ids=repr
)
def test_a_huge_gradient_whose_products_are_all_finite_does_not_enter_its_average(method, huge):
    gradients = GRADIENTS[: 1 + method.aux_count]
    outlier = gradients.copy()
    outlier[huge] *= 1e160
    step, undisturbed = gs.Reference(method), gs.Reference(method)
    for reference in (step, undisturbed):
        reference(*gradients)
    assert np.isnan(step(*outlier)).all()
    assert_array_equal(step(*gradients), undisturbed(*gradients))


def test_a_step_whose_weight_overflows_is_unsound():
    step = gs.Reference(gs.bloop(lam=1.0, rho=0.1))
    main, aux = np.full(3, 1e-145), np.full(3, 1e170)  # <aux, average> / |average|^2 = 1e315
    step(main, main)
    before = step.state
    assert np.isnan(step(main, aux)).all()
    assert_array_equal(step.state.averages, before.averages)
    assert step.state.mass == before.mass


@pytest.mark.parametrize("rho", [None, 0.01])
def test_nothing_is_rejected_where_squares_underflow(rho):
    main, aux = np.random.default_rng(0).normal(size=(2, 1000)) * 1e-160 + 1e-160
    step = gs.Reference(gs.bloop(lam=1.0, rho=rho))
    step(main, aux)
    assert_allclose(step(main, aux), main + aux, rtol=1e-12)


def test_nothing_is_rejected_along_a_level_whose_square_underflows():
    main, aux, aux2 = np.random.default_rng(0).normal(size=(3, 1000)) + 1
    step = gs.Reference(gs.bloop(lam=(1.0, 1.0), rho=None))
    tiny = 1e-160 * aux
    assert_allclose(step(main, tiny, aux2), main + gs.reject(aux2, main), rtol=1e-9, atol=1e-12)
