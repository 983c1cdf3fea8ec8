import numpy as np
import pytest

import gradsurgery as gs

WITH_LAM = [gs.bloop, gs.mixed, gs.dynamic_barrier, gs.pcgrad]
WITH_RHO = [gs.bloop, gs.dynamic_barrier, gs.pcgrad]


@pytest.mark.parametrize("method", WITH_LAM)
@pytest.mark.parametrize("lam", [-0.1, np.float32(-1), np.array(-1.0), float("nan"), float("inf"), -1])
def test_lam_is_finite_and_at_least_zero(method, lam):
    with pytest.raises(ValueError, match=r"lam weighs the auxiliary gradient, so it must be at least 0; got "):
        method(lam=lam)


@pytest.mark.parametrize("method", WITH_RHO)
@pytest.mark.parametrize("rho", [0, 0.0, -0.1, 1.1, float("nan"), np.float64(2)])
def test_rho_is_above_zero_and_at_most_one(method, rho):
    with pytest.raises(ValueError, match=r"rho is .* above 0 and at most 1; got "):
        method(lam=0.1, rho=rho)


@pytest.mark.parametrize("beta", [0, 1.5, float("nan")])
def test_beta_is_above_zero_and_at_most_one(beta):
    with pytest.raises(ValueError, match=r"beta is .* above 0 and at most 1; got "):
        gs.gradvac(beta=beta)


@pytest.mark.parametrize("lam", ["0.1", None, [[0.1]], np.ones(2), True, {}, gs.relative, float])
def test_lam_is_a_number_or_a_schedule(lam):
    with pytest.raises(TypeError, match="lam must be a number, a scalar array or a schedule"):
        gs.bloop(lam=lam)


def test_each_level_needs_a_weight():
    with pytest.raises(ValueError, match="one weight for each auxiliary loss; got none"):
        gs.bloop(lam=())
    with pytest.raises(ValueError, match="at least 0; got -1"):
        gs.bloop(lam=(0.1, -1))
    with pytest.raises(ValueError, match="takes 1 auxiliary gradient; got 2; give lam one weight for each"):
        gs.Reference(gs.bloop(lam=0.1))([1.0], [1.0], [1.0])


def test_psi_is_a_function():
    with pytest.raises(TypeError, match=r"psi must be a function of \(main, aux\); got 3"):
        gs.barrier(psi=3)


def test_numpy_numbers_become_python_floats():
    method = gs.bloop(lam=[np.float64(0.5), np.array(0.25)], rho=np.int64(1))
    assert method == gs.bloop(lam=(0.5, 0.25), rho=1.0)
    assert repr(method) == "bloop(lam=(0.5, 0.25), rho=1.0)"


def test_a_schedule_is_evaluated_and_checked_at_every_step():
    seen = []

    def lam(step):
        seen.append(step)
        return 1.0 - step

    step = gs.Reference(gs.mixed(lam=lam))
    assert step([0.0], [1.0]) == [1.0]
    assert step([0.0], [1.0]) == [0.0]
    with pytest.raises(ValueError, match="at least 0; got -1"):
        step([0.0], [1.0])
    assert sorted(set(seen)) == [0, 1, 2]


@pytest.mark.parametrize("method", [gs.mixed(lam=lambda step: (0.1, 0.2)), gs.bloop(lam=0.1, rho=lambda step: None)])
def test_a_schedule_returns_one_number(method):
    with pytest.raises(TypeError, match=r"a schedule must return one number; got .*: .* give lam a tuple of schedules"):
        gs.Reference(method)([1.0], [1.0])
