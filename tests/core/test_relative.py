"""``relative``: lam as a multiple of |main| / |aux|."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gradsurgery as gs
from gradsurgery.plan import plan, required_products

norm = np.linalg.norm
CONSTRUCTORS = [gs.bloop, gs.mixed, gs.dynamic_barrier, gs.pcgrad]
HISTORY = np.random.default_rng(0).normal(size=(4, 2, 5))


@pytest.mark.parametrize("rho", [None, 0.1])
@pytest.mark.parametrize("constructor", CONSTRUCTORS)
def test_a_step_equals_that_of_the_equivalent_absolute_lam(constructor, rho):
    options = {} if constructor is gs.mixed else {"rho": rho}
    relative = gs.Reference(constructor(lam=gs.relative(0.3), **options))
    lams = [0.3 * norm(main) / norm(aux) for main, aux in HISTORY]
    plain = gs.Reference(constructor(lam=lambda step: lams[step], **options))
    for main, aux in HISTORY:
        assert_allclose(relative(main, aux), plain(main, aux), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("constructor", CONSTRUCTORS)
def test_the_scale_of_aux_drops_out(constructor, scale):
    step, scaled = (gs.Reference(constructor(lam=gs.relative(0.3))) for _ in range(2))
    for main, aux in HISTORY:
        assert_allclose(scaled(main, scale * aux), step(main, aux), rtol=1e-12)


def test_each_level_may_have_its_own_weight():
    main, aux, aux2 = np.random.default_rng(0).normal(size=(3, 5))
    step = gs.Reference(gs.mixed(lam=(gs.relative(0.5), 0.1)))
    assert_allclose(step(main, aux, aux2), main + 0.5 * norm(main) / norm(aux) * aux + 0.1 * aux2)
    levels = gs.Reference(gs.bloop(lam=(gs.relative(0.5), 0.1), rho=None))
    first_level = 0.5 * norm(main) / norm(aux) * gs.reject(aux, main)
    assert_allclose(levels(main, aux, aux2), main + first_level + 0.1 * gs.reject(aux2, main, aux))
    shared = gs.Reference(gs.mixed(lam=gs.relative(0.5)))
    expected = main + 0.5 * norm(main) * (aux / norm(aux) + aux2 / norm(aux2))
    assert_allclose(shared(main, aux, aux2), expected)


@pytest.mark.parametrize("constructor", CONSTRUCTORS)
def test_a_zero_gradient_gives_a_finite_step(constructor):
    main, zero = np.array([3.0, 4.0]), np.zeros(2)
    step = gs.Reference(constructor(lam=gs.relative(0.3)))
    assert_allclose(step(main, zero), main)
    assert_allclose(step(zero, main), zero)
    assert_allclose(step(zero, zero), zero)


def test_the_ratio_may_be_a_schedule():
    step = gs.Reference(gs.mixed(lam=gs.relative(lambda step: 0.5 * step)))
    assert_allclose(step([3.0, 4.0], [0.0, 1.0]), [3.0, 4.0])
    assert_allclose(step([3.0, 4.0], [0.0, 1.0]), [3.0, 6.5])


def test_nan_is_unsound_and_not_an_error():
    step = gs.Reference(gs.bloop(lam=gs.relative(0.3)))
    assert np.isnan(step([np.nan, 1.0], [1.0, 1.0])).all()
    assert np.isfinite(step([1.0, 1.0], [1.0, 2.0])).all()


def test_relative_adds_the_squared_lengths_that_the_method_does_not_compute():
    def added_products(method):
        relative = type(method)(**{**vars(method), "lam": gs.relative(0.3)})
        return set(required_products(relative, 1)) - set(required_products(method, 1))

    assert added_products(gs.mixed(lam=0.1)) == set()
    assert added_products(gs.bloop(lam=0.1)) == {("aux", "aux")}
    assert added_products(gs.bloop(lam=0.1, rho=None)) == {("aux", "aux")}
    assert added_products(gs.dynamic_barrier(lam=0.1)) == {("aux", "aux")}
    assert added_products(gs.pcgrad(lam=0.1)) == set()


def test_removed_is_a_share_of_the_weighted_aux():
    main, aux = np.random.default_rng(0).normal(size=(2, 7))
    vectors = {"main": main, "aux": 1e6 * aux}
    method = gs.bloop(lam=gs.relative(0.3), rho=None)
    step = plan(method, tuple(vectors), dot=lambda a, b: vectors[a] @ vectors[b], measure=True)
    assert_allclose(step.diagnostics()["removed"], norm(aux - gs.reject(aux, main)) / norm(aux))
    assert_allclose(step.diagnostics()["weight_aux"], 0.3 * norm(main) / norm(1e6 * aux))


def test_repr_and_equality():
    assert repr(gs.bloop(lam=gs.relative(0.3))) == "bloop(lam=relative(0.3), rho=0.01)"
    assert repr(gs.bloop(lam=(gs.relative(1), 0.1))) == "bloop(lam=(relative(1.0), 0.1), rho=0.01)"
    assert gs.mixed(lam=gs.relative(0.5)) == gs.mixed(lam=gs.relative(np.float32(0.5)))
    assert gs.relative(0.3).ratio == 0.3


@pytest.mark.parametrize("ratio", [-0.1, float("nan"), float("inf"), np.float32(-1)])
def test_the_ratio_is_finite_and_at_least_0(ratio):
    with pytest.raises(ValueError, match=r"the ratio of relative is .* so it must be at least 0; got "):
        gs.relative(ratio)


@pytest.mark.parametrize("ratio", ["0.3", None, (0.3, 0.1), True, gs.relative(0.3)])
def test_the_ratio_is_a_number_or_a_schedule(ratio):
    with pytest.raises(TypeError, match="the ratio of relative must be a number, a scalar array or a schedule"):
        gs.relative(ratio)


def test_the_values_of_a_schedule_are_checked():
    with pytest.raises(ValueError, match="at least 0; got -1"):
        gs.Reference(gs.mixed(lam=gs.relative(lambda step: -1)))([1.0], [1.0])


def test_rho_is_not_relative():
    with pytest.raises(TypeError, match="rho must be a number, a scalar array or a schedule"):
        gs.bloop(lam=0.1, rho=gs.relative(0.3))
