"""Averages in bfloat16: half the memory, rounded stochastically from a counter."""

import copy

import pytest
import torch
from torch.nn import Linear, Parameter, Sequential, Tanh

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.torch_front.test_state import assert_equal_states

eager_and_compiled = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


def make_run(compiled, method=None, dtype=torch.float32):
    torch.manual_seed(0)
    model = Sequential(Linear(4, 8), Tanh(), Linear(8, 2)).to(dtype)
    method = method or gs.bloop(lam=0.5, rho=0.01)
    return model, gst.Surgery(model, method, compile=compiled, average_dtype=torch.bfloat16)


def train(model, surgery, steps):
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in steps:
        x = torch.randn(6, 4, generator=torch.Generator().manual_seed(step)).to(model[0].weight.dtype)
        output = model(x)
        surgery.backward(output.square().mean(), output.sin().mean())
        surgery.apply()
        optimiser.step()
        optimiser.zero_grad()


@eager_and_compiled
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_averages_are_stored_in_bfloat16(compiled, dtype):
    model, surgery = make_run(compiled, gs.bloop(lam=(0.5,), rho=0.1), dtype)
    train(model, surgery, range(3))
    averages = surgery.state_dict()["averages"][0]
    assert {average.dtype for average in averages.values()} == {torch.bfloat16}
    assert all(average.any() for average in averages.values())


@eager_and_compiled
def test_a_small_rho_moves_the_average_as_in_single_precision(compiled):
    """Rounded to nearest, a change of less than 1/256 would be lost in every step."""
    weight = Parameter(torch.zeros(4096))
    surgery = gst.Surgery([weight], gs.bloop(lam=0.5, rho=0.001), compile=compiled, average_dtype=torch.bfloat16)
    ones = torch.ones(4096)
    for scale in [1.0] * 500 + [0.0] * 500:
        weight.grad = None
        surgery.gather([scale * ones], [ones])
        surgery.apply()
    single = gst.Surgery([weight], gs.bloop(lam=0.5, rho=0.001))
    for scale in [1.0] * 500 + [0.0] * 500:
        weight.grad = None
        single.gather([scale * ones], [ones])
        single.apply()
    actual, expected = (s.state_dict()["averages"][0][0].float().mean() for s in (surgery, single))
    assert float(actual) == pytest.approx(float(expected), rel=0.01)


@eager_and_compiled
def test_a_resumed_run_is_the_same_bit_for_bit_and_uses_no_generator(compiled):
    model, surgery = make_run(compiled)
    train(model, surgery, range(4))
    other, resumed = make_run(compiled)
    other.load_state_dict(model.state_dict())
    resumed.load_state_dict(copy.deepcopy(surgery.state_dict()))
    generator = torch.get_rng_state()
    train(model, surgery, range(4, 9))
    torch.manual_seed(7)
    train(other, resumed, range(4, 9))
    torch.set_rng_state(generator)
    assert_equal_states(resumed.state_dict(), surgery.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_eager_and_compiled_round_alike():
    states = []
    for compiled in (False, True):
        model, surgery = make_run(compiled)
        train(model, surgery, range(2))
        states.append(surgery.state_dict()["averages"][0])
    for eager, compiled in zip(states[0].values(), states[1].values(), strict=True):
        torch.testing.assert_close(eager, compiled, rtol=0.02, atol=1e-3)


def test_a_state_in_single_precision_loads():
    model, _ = make_run(False)
    single = gst.Surgery(model, gs.bloop(lam=0.5, rho=0.01))
    train(model, single, range(2))
    _, surgery = make_run(False)
    surgery.load_state_dict(single.state_dict())
    assert {average.dtype for average in surgery.state_dict()["averages"][0].values()} == {torch.bfloat16}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, "bfloat16"])
def test_other_types_get_one_sentence(dtype):
    with pytest.raises(ValueError, match=r"average_dtype must be torch\.bfloat16 or None; got"):
        gst.Surgery([Parameter(torch.ones(1))], gs.bloop(lam=0.5), average_dtype=dtype)
