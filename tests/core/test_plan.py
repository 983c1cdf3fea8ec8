"""Plans on symbols: the inner products that they need, and that they give what the formula gives on arrays."""

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gradsurgery as gs
from gradsurgery.plan import basis, plan, required_products
from gradsurgery.vector import Gram
from tests.methods.catalogue import ALL


class Planned:
    """A front end in numpy: does what ``Reference`` does, but from inner products."""

    def __init__(self, method):
        self.method, self.steps, self.averages, self.mass, self.memory = method, 0, None, 0.0, None

    def __call__(self, *gradients):
        averages = self.averages or [np.zeros_like(gradients[0])] * self.method.averages
        names = basis(self.method, len(gradients) - 1)
        vectors = dict(zip(names, [*gradients, *averages], strict=True))
        self.computed = Counter()

        def dot(a, b):
            self.computed[a, b] += 1
            return vectors[a] @ vectors[b]

        step = plan(self.method.resolve(self.steps), names, dot, mass=self.mass, memory=self.memory)
        self.averages = [
            step.keep * a + step.take * g for a, g in zip(averages, gradients, strict=False)
        ]  # the tests' gradients are finite
        self.steps, self.mass, self.memory = self.steps + 1, step.mass, step.memory
        return sum(weight * vectors[name] for name, weight in step.weights.items())


@pytest.mark.parametrize(("method", "aux_count"), ALL.values(), ids=ALL)
def test_symbols_and_arrays_give_the_same_directions(method, aux_count):
    rng = np.random.default_rng(0)
    planned, reference = Planned(method), gs.Reference(method)
    for _ in range(100):
        gradients = rng.normal(size=(1 + aux_count, 12)) + 0.3
        expected = reference(*gradients)
        assert np.linalg.norm(planned(*gradients) - expected) <= 1e-12 * np.linalg.norm(expected)


@pytest.mark.parametrize(("method", "aux_count"), ALL.values(), ids=ALL)
def test_no_inner_product_is_computed_twice(method, aux_count):
    planned = Planned(method)
    for gradients in np.random.default_rng(0).normal(size=(3, 1 + aux_count, 5)):
        planned(*gradients)
        assert max(planned.computed.values(), default=1) == 1


def test_bloop_needs_two_inner_products_and_one_for_soundness():
    assert set(required_products(gs.bloop(lam=0.1), 1)) == {
        ("aux", "average"),
        ("average", "average"),
        ("main", "main"),
    }
    assert set(required_products(gs.bloop(lam=0.1, rho=None), 1)) == {("main", "aux"), ("main", "main")}


@pytest.mark.parametrize(("method", "averaged"), [
    (gs.bloop(lam=0.1), ["main"]),
    (gs.bloop(lam=(0.1, 0.1)), ["main", "aux"]),
    (gs.pcgrad(lam=0.1, rho=0.1), ["main"]),
    (gs.dynamic_barrier(lam=0.1, rho=0.1), ["main"]),
])  # fmt: skip
def test_the_square_of_each_gradient_that_enters_an_average_is_computed(method, averaged):
    products = required_products(method, method.aux_count)
    assert all((name, name) in products for name in averaged)


def test_mixed_needs_inner_products_to_notice_non_finite_gradients_only():
    assert required_products(gs.mixed(lam=0.1), 1) == [("main", "main"), ("aux", "aux")]


def test_diagnostics_cost_no_inner_product_unless_measure_is_set():
    method = gs.bloop(lam=0.1)
    frugal, full = (plan(method, basis(method, 1), dot=lambda a, b: 1.0, measure=measure) for measure in (False, True))
    assert frugal.weights == full.weights
    assert set(frugal.diagnostics()) == {"sound", "weight_main", "weight_aux", "weight_average", "conflict"}
    assert set(full.diagnostics()) - set(frugal.diagnostics()) == {
        "cos_main_aux",
        "cos_main_average",
        "cos_aux_average",
        "removed",
    }


def test_diagnostics_by_hand():
    vectors = {"main": np.array([3.0, 4.0]), "aux": np.array([-5.0, 0.0]), "average": np.array([2.0, 0.0])}
    step = plan(gs.bloop(lam=0.5), tuple(vectors), dot=lambda a, b: vectors[a] @ vectors[b], mass=0.5, measure=True)
    expected = {
        "sound": True,
        "conflict": True,
        "removed": 1.0,
        "cos_main_aux": -0.6,
        "cos_main_average": 0.6,
        "cos_aux_average": -1.0,
        "weight_main": 1.0,
        "weight_aux": 0.5,
        "weight_average": 0.5 * 2.5,
    }
    assert step.diagnostics() == pytest.approx(expected)


def test_removed_is_the_share_of_aux_that_bloop_projects_away():
    rng = np.random.default_rng(0)
    main, aux = rng.normal(size=(2, 7))
    vectors = {"main": main, "aux": aux}
    step = plan(gs.bloop(lam=0.5, rho=None), tuple(vectors), dot=lambda a, b: vectors[a] @ vectors[b], measure=True)
    assert_allclose(step.diagnostics()["removed"], np.linalg.norm(aux - gs.reject(aux, main)) / np.linalg.norm(aux))


@pytest.mark.parametrize(("method", "aux_count"), ALL.values(), ids=ALL)
def test_each_level_has_a_name_of_its_own(method, aux_count):
    names = basis(method, aux_count)
    assert names[: 1 + aux_count] == ("main", "aux", "aux2", "aux3")[: 1 + aux_count]
    assert names[1 + aux_count :] == ("average", "average_aux", "average_aux2")[: method.averages]


def test_vector_arithmetic_acts_on_weights():
    arrays = dict(zip("abc", np.random.default_rng(0).normal(size=(3, 4)), strict=True))
    gram = Gram("abc", dot=lambda x, y: arrays[x] @ arrays[y])
    a, b, c = (gram.vector(name) for name in "abc")
    u, v = 2.0 * a - b * np.float64(3.0), -(a + b) + 0.5 * c
    assert u.weights == {"a": 2.0, "b": -3.0}
    assert_allclose(u @ v, (2 * arrays["a"] - 3 * arrays["b"]) @ (-arrays["a"] - arrays["b"] + 0.5 * arrays["c"]))
