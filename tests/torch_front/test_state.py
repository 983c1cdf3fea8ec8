"""Checkpoints: a run goes on bit for bit, and a state of something else is refused."""

import copy

import pytest
import torch
from torch.nn import Linear, Sequential, Tanh

import gradsurgery as gs
import gradsurgery.torch as gst


def some_run(method, dtype=torch.float32):
    torch.manual_seed(0)
    model = Sequential(Linear(4, 8), Tanh(), Linear(8, 2)).to(dtype)
    return model, torch.optim.Adam(model.parameters(), lr=0.01), gst.Surgery(model.parameters(), method)


def train(run, steps, start=0):
    model, optimiser, surgery = run
    for step in range(start, start + steps):
        inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(step)).to(model[0].weight.dtype)
        output = model(inputs)
        surgery.backward(output.square().mean(), output.sin().mean())
        surgery.apply()
        optimiser.step()
        optimiser.zero_grad()


METHODS = [gs.bloop(lam=lambda step: 0.1 * step, rho=0.3), gs.gradvac(), gs.dynamic_barrier(lam=0.5, rho=0.1)]


@pytest.mark.parametrize("method", METHODS, ids=["bloop", "gradvac", "dynamic_barrier"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_saved_run_goes_on_bit_for_bit(method, dtype, tmp_path):
    straight = some_run(method, dtype)
    train(straight, 4)
    torch.save([part.state_dict() for part in straight], tmp_path / "run.pt")
    train(straight, 4, start=4)
    resumed = some_run(method, dtype)
    for part, state in zip(resumed, torch.load(tmp_path / "run.pt", weights_only=True), strict=True):
        part.load_state_dict(state)
    train(resumed, 4, start=4)
    for one, other in zip(straight[0].parameters(), resumed[0].parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_loaded_state_is_a_copy():
    run = some_run(gs.bloop(lam=0.5))
    train(run, 1)
    state = run[2].state_dict()
    other = some_run(gs.bloop(lam=0.5))
    other[2].load_state_dict(state)
    before = state["averages"][0][0].clone()
    train(other, 1)
    assert torch.equal(state["averages"][0][0], before)


def test_a_run_that_goes_back_to_a_saved_state_goes_on_from_there():
    run, twin = some_run(gs.bloop(lam=0.5)), some_run(gs.bloop(lam=0.5))
    train(twin, 4)
    train(run, 2)
    saved = copy.deepcopy([part.state_dict() for part in run])
    train(run, 2, start=10)
    for part, state in zip(run, saved, strict=True):
        part.load_state_dict(state)
    train(run, 2, start=2)
    for one, other in zip(run[0].parameters(), twin[0].parameters(), strict=True):
        assert torch.equal(one, other)


def test_another_lam_is_no_reason_to_refuse():
    run = some_run(gs.bloop(lam=0.5))
    train(run, 2)
    other = some_run(gs.bloop(lam=0.1, rho=0.2))[2]
    other.load_state_dict(run[2].state_dict())
    assert other.state_dict()["steps"] == 2


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (gs.pcgrad(lam=0.5, rho=0.1), "of the method bloop, but this surgery's is pcgrad"),
        (gs.bloop(lam=0.5, rho=None), r"has 1 averages, but bloop\(lam=0.5, rho=None\) keeps 0"),
        (gs.bloop(lam=(0.5, 0.1)), "has 1 averages, but .* keeps 2"),
    ],
)
def test_a_state_of_another_method_is_refused_with_what_differs(other, sentence):
    run = some_run(gs.bloop(lam=0.5))
    train(run, 1)
    with pytest.raises(ValueError, match=sentence):
        gst.Surgery(run[0].parameters(), other).load_state_dict(run[2].state_dict())


def test_a_state_for_other_parameters_is_refused_with_what_differs():
    run = some_run(gs.bloop(lam=0.5))
    train(run, 1)
    with pytest.raises(ValueError, match="for 4 parameters, but this surgery has 2"):
        gst.Surgery(run[0][0].parameters(), gs.bloop(lam=0.5)).load_state_dict(run[2].state_dict())
    wider = Sequential(Linear(4, 8), Tanh(), Linear(8, 3))
    with pytest.raises(ValueError, match=r"parameter 2 has shape \(2, 8\) in the state, but \(3, 8\) here"):
        gst.Surgery(wider.parameters(), gs.bloop(lam=0.5)).load_state_dict(run[2].state_dict())


def test_an_average_saved_in_another_memory_layout_moves_on():
    gradients = torch.randn(3, 2, 2, 3, 3)
    averages = []
    for layout in (torch.contiguous_format, torch.channels_last):
        saved = torch.nn.Parameter(torch.zeros(2, 2, 3, 3).to(memory_format=layout))
        before = gst.Surgery([saved], gs.bloop(lam=0.5, rho=0.5))
        before.backward((saved * gradients[0]).sum(), (saved * gradients[1]).sum())
        before.apply()
        weight = torch.nn.Parameter(torch.zeros(2, 2, 3, 3))
        surgery = gst.Surgery([weight], gs.bloop(lam=0.5, rho=0.5))
        surgery.load_state_dict(before.state_dict())
        surgery.backward((weight * gradients[2]).sum(), (weight * gradients[1]).sum())
        surgery.apply()
        averages.append(surgery.state_dict()["averages"][0][0])
    torch.testing.assert_close(averages[0], averages[1])
    torch.testing.assert_close(averages[0], (0.25 * gradients[0] + 0.5 * gradients[2]) / 0.75)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_another_type_of_a_parameter_is_followed_and_another_shape_is_told(compiled):
    parameter = torch.nn.Parameter(torch.randn(10, 4))
    surgery = gst.Surgery([parameter], gs.bloop(lam=0.5), compile=compiled)

    def step():
        parameter.grad = None
        surgery.backward((2 * parameter).sum(), parameter.square().sum())
        surgery.apply()

    step()
    parameter.data = parameter.data.double()
    step()
    assert surgery.state_dict()["averages"][0][0].dtype == torch.float64
    assert parameter.grad.isfinite().all()
    parameter.data = torch.randn(20, 4, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"shape \(20, 4\) has come .* average has \(10, 4\)"):
        step()


def test_an_average_of_another_shape_is_refused():
    run = some_run(gs.bloop(lam=0.5))
    train(run, 1)
    state = run[2].state_dict()
    state["averages"][0][0] = state["averages"][0][0][:3]
    with pytest.raises(ValueError, match=r"parameter 0 has shape \(3, 4\) in the state, but \(8, 4\) here"):
        run[2].load_state_dict(state)


def test_with_a_tensor_for_rho_a_run_goes_on_bit_for_bit():
    method = gs.dynamic_barrier(lam=50.0, rho=torch.tensor(0.1, dtype=torch.float64))
    straight, resumed = some_run(method), some_run(method)
    train(straight, 3)
    surgery = straight[2]
    assert surgery.state_dict()["mass"].item() == float(surgery._state.mass)  # not rounded when it is saved
    for part, other in zip(resumed, straight, strict=True):
        part.load_state_dict(copy.deepcopy(other.state_dict()))
    train(straight, 3, start=3)
    train(resumed, 3, start=3)
    for one, other in zip(straight[0].parameters(), resumed[0].parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_run_goes_from_eager_to_compiled_and_back():
    runs = [some_run(gs.bloop(lam=0.5, rho=0.3)) for _ in range(2)]
    for step in range(4):
        if step:
            model, optimiser, before = runs[0]
            runs[0] = (model, optimiser, gst.Surgery(model.parameters(), before.method, compile=step % 2 == 1))
            runs[0][2].load_state_dict(before.state_dict())
        for one in runs:
            train(one, 1, start=step)
    for one, other in zip(runs[0][0].parameters(), runs[1][0].parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
