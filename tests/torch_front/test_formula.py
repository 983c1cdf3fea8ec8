"""Formulas that were written down, beside those that run on symbols."""

import math
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import torch

import gradsurgery as gs
import gradsurgery.torch as gst
from gradsurgery.method import Method
from gradsurgery.torch.formula import Formula
from gradsurgery.torch.scalars import Numbers
from gradsurgery.torch.state import State
from gradsurgery.torch.tape import Tape
from tests.methods.catalogue import ALL

NUMBERS = Numbers(torch.device("cpu"), torch.float64)


def formula(method, aux_count=1):
    return Formula(method, aux_count, NUMBERS, measure=False, squares=False)


def is_written(method, aux_count=1):
    return formula(method, aux_count)._written is not None


def random_products(of, count, seed):
    vectors = dict(zip(of.names, np.random.default_rng(seed).normal(size=(len(of.names), 5)), strict=True))
    return [float(vectors[a] @ vectors[b]) * count for a, b in of.pairs]


@pytest.mark.parametrize(("method", "aux_count"), ALL.values(), ids=ALL)
def test_every_method_gives_what_it_gives_on_symbols(method, aux_count):
    of, state = formula(method, aux_count), State(method, [torch.zeros(5)], NUMBERS)
    for step in range(20):
        products = random_products(of, 0.0 if step == 10 else 1.0, seed=step)
        found, expected = of.plan(products, state), of._planned(products, state.steps, state.mass, state.memory)
        assert found.weights == pytest.approx(expected.weights, rel=1e-12, abs=1e-12)
        assert [found.mass, *found.memory] == pytest.approx([expected.mass, *expected.memory], rel=1e-12, abs=1e-12)
        assert (found.sound, expected.sound) == (True, True)
        assert (found.keep, found.take) == pytest.approx((expected.keep, expected.take), rel=1e-6)
        assert found.diagnostics() == pytest.approx(expected.diagnostics(), nan_ok=True)
        state.move(found, found.sound)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_number_that_is_not_finite_makes_a_step_unsound(bad):
    of = formula(gs.bloop(lam=0.1))
    for place in range(len(of.pairs)):
        products = random_products(of, 1.0, seed=0)
        products[place] = bad
        step = of.plan(products, State(of.method, [torch.zeros(5)], NUMBERS))
        assert step.sound is False
        assert math.isnan(step.weights["main"])


@pytest.mark.parametrize("name", [name for name in gs.METHODS if name != "barrier"])
def test_methods_of_numbers_alone_are_written_down(name):
    assert is_written(*ALL[name])


@dataclass(frozen=True)
class Branching(Method):
    """Follows aux where main is short; with functions that take nothing but numbers."""

    def direction(self, step):
        return step.main if math.sqrt(step.main @ step.main) > 1 else min(step.main @ step.main, 0.5) * step.aux[0]


@dataclass(frozen=True)
class Fading(Method):
    """A weight that halves from step to step, by a hook of its own; what it remembers has any name."""

    weight: float = 1.0
    memory = ("v0", "lambda")

    def at(self, step):
        return Fading(self.weight / 2**step)

    def direction(self, step):
        return step.main + self.weight * step.aux[0]


def test_what_users_write_is_run_in_every_step():
    assert not is_written(Fading())
    parameter = torch.nn.Parameter(torch.zeros(2))
    surgery, found = gst.Surgery([parameter], Fading()), []
    for _ in range(3):
        surgery.backward(lambda: parameter[0], lambda: parameter[1])
        surgery.apply()
        found.append(parameter.grad[1].item())
    assert found == [1.0, 0.5, 0.25]


def test_a_formula_that_branches_runs_on_symbols():
    assert not is_written(Branching())
    parameter = torch.nn.Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], Branching())
    for length, expected in [(2.0, [2.0, 0.0]), (0.5, [0.0, 0.25])]:
        surgery.backward(lambda length=length: length * parameter[0], lambda: parameter[1])
        surgery.apply()
        assert parameter.grad.tolist() == expected


CHANGING = {
    "weight": lambda box: gs.mixed(lam=lambda step: box[0]),
    "weights": lambda box: gs.mixed(lam=(lambda step: box[0],)),
    "barrier": lambda box: gs.barrier(psi=lambda main, aux: box[0] * (main @ main)),
}


@pytest.mark.parametrize("make", CHANGING.values(), ids=CHANGING)
def test_functions_that_users_give_are_asked_in_every_step(make):
    parameter, box = torch.nn.Parameter(torch.zeros(2)), [1.0]
    surgery, found = gst.Surgery([parameter], make(box)), []
    for box[0] in (1.0, 3.0):
        surgery.backward(lambda: parameter[0], lambda: parameter[1])
        surgery.apply()
        found.append(max(parameter.grad.tolist()))
    assert found == [1.0, 3.0]


def test_another_method_in_the_same_place_is_the_one_that_counts():
    parameter = torch.nn.Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], gs.mixed(lam=1.0))
    for lam in (1.0, 2.0):
        surgery.method = gs.mixed(lam=lam)
        surgery.backward(lambda: parameter[0], lambda: parameter[1])
        surgery.apply()
        assert parameter.grad.tolist() == [1.0, lam]


OTHERS = {
    "one that keeps an average": (gs.mixed(lam=1.0), gs.bloop(lam=1.0)),
    "one that keeps none": (gs.bloop(lam=1.0), gs.bloop(lam=1.0, rho=None)),
    "one that remembers": (gs.mixed(lam=1.0), gs.gradvac()),
    "one of the same needs": (gs.mixed(lam=1.0), gs.agem()),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(("first", "second"), OTHERS.values(), ids=OTHERS)
def test_a_method_of_another_kind_is_refused_in_one_sentence(first, second, compiled):
    parameter = torch.nn.Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], first, compile=compiled)
    losses = (lambda: parameter[0], lambda: parameter[1])
    surgery.backward(*losses)
    surgery.apply()
    surgery.method = second
    with pytest.raises(ValueError, match=r"the state of this surgery is of .*, make a new Surgery"):
        surgery.backward(*losses)


def test_a_surgery_can_be_pickled_between_steps():
    parameter = torch.nn.Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], gs.bloop(lam=0.5))
    surgery.backward(lambda: parameter[0], lambda: parameter[1])
    surgery.apply()
    copy = pickle.loads(pickle.dumps(surgery))
    assert copy.diagnostics() == surgery.diagnostics()
    assert copy._formulas[1].plan([1.0, 2.0, 3.0], copy._state).weights == pytest.approx(
        surgery._formulas[1].plan([1.0, 2.0, 3.0], surgery._state).weights
    )


def test_diagnostics_are_of_the_lam_that_was():
    lam, parameter = torch.tensor(2.0), torch.nn.Parameter(torch.zeros(2))
    surgery = gst.Surgery([parameter], gs.mixed(lam=lam), measure=True)
    surgery.backward(lambda: parameter[0], lambda: parameter[1])
    surgery.apply()
    lam.fill_(7.0)
    assert surgery.diagnostics()["removed"] == 0.0


def test_a_tape_holds_all_operators_and_writes_nothing_twice():
    tape = Tape(dtype=None)
    a, b = tape.symbol("a"), tape.symbol("b")
    several = [a + b, 1 + a, a - b, 1 - a, 2 * a, a / b, 1 / a, a**2, 2**a, -a, a < b, a <= 1, a < 1, a >= b, a == b]
    several += [a != b, (-2) ** a, a - -0.5]
    again = [a + b, a * 1, 0 + a, 1.0 * a]

    def by_hand(a, b):
        found = [a + b, 1 + a, a - b, 1 - a, 2 * a, a / b, 1 / a, a**2, 2**a, -a, a < b, a <= 1, a < 1, a >= b, a == b]
        return *found, a != b, (-2) ** a, a - -0.5, a + b, a, a, a

    assert tape.function([*several, *again])(3.0, 4.0) == by_hand(3.0, 4.0)
    assert tape.source([]).count(" = ") == len(several)
