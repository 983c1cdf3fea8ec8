import numpy as np
from numpy.testing import assert_allclose

import gradsurgery as gs


def test_by_hand():
    step = gs.Reference(gs.gradvac(beta=1.0))
    assert_allclose(step([1.0, 0.0], [3.0, 4.0]), [4.0, 4.0])  # phi = 0.6 is not below phi_average = 0
    assert_allclose(step.state.memory, [0.6])
    corrected_main, corrected_aux = [1.0, 0.75], [1.5, 2.0]  # each at cosine 0.6 with the other's gradient
    assert_allclose(step([1.0, 0.0], [0.0, 2.0]), np.add(corrected_main, corrected_aux))
    assert_allclose(step.state.memory, [0.0], atol=1e-15)


def test_beta_is_the_share_of_the_new_cosine():
    step = gs.Reference(gs.gradvac(beta=0.5))
    step([1.0, 0.0], [3.0, 4.0])
    assert_allclose(step.state.memory, [0.3])


def test_beta_may_be_a_schedule():
    step = gs.Reference(gs.gradvac(beta=lambda step: 1 / (1 + step)))
    step([1.0, 0.0], [3.0, 4.0])  # phi = 0.6
    step([1.0, 0.0], [0.0, 2.0])  # phi = 0
    assert_allclose(step.state.memory, [0.5 * 0.6])


def test_the_first_step_is_that_of_pcgrad():
    main, aux = [3.0, 4.0], [-2.0, 1.0]
    assert_allclose(gs.Reference(gs.gradvac())(main, aux), gs.Reference(gs.pcgrad(lam=1.0))(main, aux))
