"""Formulas and schedules that users write, methods replaced during training, and diagnostics."""

import math
import pickle
from dataclasses import dataclass

import pytest
import torch
from torch.nn import Parameter

import gradsurgery as gs
import gradsurgery.torch as gst
from gradsurgery.method import Method
from gradsurgery.torch import step as step_of_part
from tests.torch_front.test_state import assert_equal_states


def step(surgery, parameter, scale=1.0):
    """One step with the gradients (scale, 0) and (0, 1); returns the direction."""
    parameter.grad = None
    surgery.backward(lambda: scale * parameter[0], lambda: parameter[1])
    surgery.apply()
    return parameter.grad.tolist()


class Corrupted:
    """Passes with one inner product replaced."""

    def __init__(self, passes, index, value):
        self._passes, self._index, self._value = passes, index, value
        self.combine = passes.combine

    def products(self):
        products = list(self._passes.products())
        products[self._index] = self._value
        return products


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("index", range(3))
def test_one_product_that_is_not_finite_makes_a_step_unsound(bad, index, monkeypatch):
    parameter = Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], gs.bloop(lam=0.1))
    step(surgery, parameter)
    before = surgery.state_dict()
    make_passes = step_of_part.make_passes
    monkeypatch.setattr(step_of_part, "make_passes", lambda *a, **k: Corrupted(make_passes(*a, **k), index, bad))
    assert all(map(math.isnan, step(surgery, parameter)))
    assert_equal_states(surgery.state_dict(), {**before, "steps": 2})


def test_schedules_are_called_once_in_each_step():
    calls = []
    parameter = Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], gs.bloop(lam=lambda step: calls.append(step) or 0.5))
    for _ in range(3):
        step(surgery, parameter)
    assert calls == [0, 1, 2]


@dataclass(frozen=True)
class Branching(Method):
    """Follows aux where main is short; uses functions that take floats only."""

    def direction(self, step):
        return step.main if math.sqrt(step.main @ step.main) > 1 else min(step.main @ step.main, 0.5) * step.aux[0]


@dataclass(frozen=True)
class Fading(Method):
    """A weight that halves in each step; its memory has names that are not identifiers."""

    weight: float = 1.0
    memory = ("v0", "lambda")

    def resolve(self, step):
        return Fading(self.weight / 2**step)

    def direction(self, step):
        return step.main + self.weight * step.aux[0]


def test_a_user_method_is_resolved_in_every_step():
    parameter = Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], Fading())
    assert [step(surgery, parameter)[1] for _ in range(3)] == [1.0, 0.5, 0.25]


def test_a_user_formula_may_branch():
    parameter = Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], Branching())
    assert step(surgery, parameter, scale=2.0) == [2.0, 0.0]
    assert step(surgery, parameter, scale=0.5) == [0.0, 0.25]


CHANGING = {
    "weight": lambda box: gs.mixed(lam=lambda step: box[0]),
    "weights": lambda box: gs.mixed(lam=(lambda step: box[0],)),
    "barrier": lambda box: gs.barrier(psi=lambda main, aux: box[0] * (main @ main)),
}


@pytest.mark.parametrize("make", CHANGING.values(), ids=CHANGING)
def test_user_functions_are_called_in_every_step(make):
    parameter, box = Parameter(torch.zeros(2)), [1.0]
    surgery, largest = gst.Surgery([parameter], make(box)), []
    for box[0] in (1.0, 3.0):
        largest.append(max(step(surgery, parameter)))
    assert largest == [1.0, 3.0]


def test_the_method_may_be_replaced_between_steps():
    parameter = Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], gs.mixed(lam=1.0))
    for lam in (1.0, 2.0):
        surgery.method = gs.mixed(lam=lam)
        assert step(surgery, parameter) == [1.0, lam]


OTHERS = {
    "keeps an average": (gs.mixed(lam=1.0), gs.bloop(lam=1.0)),
    "keeps no average": (gs.bloop(lam=1.0), gs.bloop(lam=1.0, rho=None)),
    "has memory": (gs.mixed(lam=1.0), gs.gradvac()),
    "has the same state": (gs.mixed(lam=1.0), gs.agem()),
}


@pytest.mark.parametrize(("first", "second"), OTHERS.values(), ids=OTHERS)
def test_a_method_of_another_kind_is_refused_in_one_sentence(first, second):
    parameter = Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], first)
    step(surgery, parameter)
    with pytest.raises(ValueError, match=r"this Surgery holds the state of .*, make a new Surgery"):
        surgery.method = second
    assert surgery.method == first
    step(surgery, parameter)  # goes on with the first


@pytest.mark.parametrize("measure", [False, True])
def test_a_surgery_can_be_pickled_between_steps(measure):
    parameter = Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], gs.bloop(lam=0.5), measure=measure)
    step(surgery, parameter)
    copy = pickle.loads(pickle.dumps(surgery))
    assert copy.diagnostics() == surgery.diagnostics()
    assert step(copy, copy._parameters[0]) == step(surgery, parameter)
    assert copy.diagnostics() == surgery.diagnostics()


TENSORS = {
    "lam": lambda value: gs.mixed(lam=value),
    "one of several lams": lambda value: gs.mixed(lam=(value,)),
    "a schedule": lambda value: gs.mixed(lam=lambda step: value),
    "a schedule of several": lambda value: gs.mixed(lam=(lambda step: value,)),
}


@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
def test_diagnostics_use_the_hyperparameters_of_their_step(make):
    lam, parameter = torch.tensor(2.0), Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], make(lam), measure=True)
    step(surgery, parameter)
    lam.fill_(7.0)
    assert surgery.diagnostics()["removed"] == 0.0


def test_diagnostics_are_computed_when_they_are_read(monkeypatch):
    calls = []
    monkeypatch.setattr("gradsurgery.plan.compute_diagnostics", lambda *step: calls.append(step) or {})
    parameter = Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], gs.bloop(lam=torch.tensor(0.5)))
    step(surgery, parameter)
    assert calls == []
    surgery.diagnostics()
    assert len(calls) == 1


@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
def test_the_ratio_of_relative_may_be_a_tensor_that_requires_gradients(make):
    parameter = Parameter(torch.zeros(2))
    ratio = torch.tensor(0.5, requires_grad=True)
    surgery = gst.Surgery([parameter], make(gs.relative(ratio)))
    assert step(surgery, parameter, scale=4.0) == [4.0, 2.0]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_schedules_may_return_tensors_that_require_gradients(compiled):
    lam, rho = torch.tensor(0.5, requires_grad=True), torch.tensor(0.25, dtype=torch.float64, requires_grad=True)
    parameter = Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], gs.bloop(lam=lambda step: lam, rho=lambda step: rho), compile=compiled)
    for _ in range(2):
        assert step(surgery, parameter) == [1.0, 0.5]
    assert surgery.state_dict()["mass"] == {0: 0.4375}


def test_a_formula_that_branches_on_inner_products_is_refused():
    parameter = Parameter(torch.zeros(2))
    psi = gs.barrier(psi=lambda main, aux: main @ main if main @ aux > 0 else 0.5 * (aux @ aux))
    with pytest.raises(ValueError, match="needs the inner product of aux and aux, which it did not need in its first"):
        step(gst.Surgery([parameter], psi), parameter)
