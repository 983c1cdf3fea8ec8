"""Mixed precision: autocast and ``GradScaler``."""

import pytest
import torch
from torch.nn import Linear, Sequential, Tanh

import gradsurgery as gs
import gradsurgery.torch as gst
from gradsurgery.torch.distributed import WIDTH, fingerprint

INPUTS = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))


def train(scale, steps=5, method=None, overflow_at=None, dtype=torch.bfloat16, compiled=False):
    torch.manual_seed(0)
    model = Sequential(Linear(4, 8), Tanh(), Linear(8, 2))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=1000) if scale else None
    surgery = gst.Surgery(model.parameters(), method or gs.bloop(lam=0.5, rho=0.3), compile=compiled)
    history = []
    for step in range(steps):
        for batch in INPUTS.chunk(2):  # with accumulation
            with torch.autocast("cpu", dtype=dtype):
                output = model(batch).float()
                losses = [output.square().mean(), (output.sin() * (1e38 if step == overflow_at else 1.0)).mean()]
            surgery.backward(*(scaler.scale(loss) if scaler else loss for loss in losses))
        before = [parameter.detach().clone() for parameter in model.parameters()]
        surgery.apply(scaler=scaler)
        if scaler:
            scaler.unscale_(optimiser)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if scaler:
            scaler.step(optimiser)
            scaler.update()
        else:
            optimiser.step()
        optimiser.zero_grad()
        moved = any((old != new).any().item() for old, new in zip(before, model.parameters(), strict=True))
        history.append((moved, list(surgery.state_dict()["averages"][0].values())))
    return list(model.parameters()), history


@pytest.mark.parametrize("method", [gs.bloop(lam=0.5, rho=0.3), gs.dynamic_barrier(lam=0.5, rho=0.3)], ids=repr)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_the_result_is_independent_of_the_scale(method, compiled):
    plain, plain_history = train(None, method=method)
    for scale in (1.0, 2.0**10, 2.0**16):
        scaled, history = train(scale, method=method, compiled=compiled)
        for actual, expected in zip(scaled, plain, strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)
        for actual, expected in zip(history[-1][1], plain_history[-1][1], strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_on_overflow_the_scaler_skips_the_step_and_the_average_stays():
    _, history = train(2.0**10, overflow_at=2)
    assert [moved for moved, _ in history] == [True, True, False, True, True]
    for before, after in zip(history[1][1], history[2][1], strict=True):
        torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert any((before != after).any() for before, after in zip(history[2][1], history[3][1], strict=True))


def test_a_disabled_scaler_changes_nothing():
    weight = torch.nn.Parameter(torch.tensor([2.0, 0.0]))
    surgery = gst.Surgery([weight], gs.bloop(lam=0.5, rho=None))
    surgery.backward((weight * torch.tensor([2.0, 0.0])).sum(), (weight * torch.tensor([4.0, 6.0])).sum())
    surgery.apply(scaler=torch.amp.GradScaler("cpu", enabled=False))
    torch.testing.assert_close(weight.grad, torch.tensor([2.0, 3.0]))


def test_a_scaler_that_has_scaled_no_loss_is_refused():
    """``scaler.step`` would divide the direction by a scale that it does not have."""
    weight = torch.nn.Parameter(torch.ones(2))
    surgery, scaler = gst.Surgery([weight], gs.bloop(lam=0.5)), torch.amp.GradScaler("cpu")
    surgery.backward(weight.sum(), weight.square().sum())
    with pytest.raises(RuntimeError, match=r"needs losses that the scaler has scaled; it has scaled none: call"):
        surgery.apply(scaler=scaler)
    assert weight.grad is None


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_scale_of_zero_leaves_the_state_alone(compiled):
    parameter = torch.nn.Parameter(torch.ones(3))
    surgery = gst.Surgery([parameter], gs.bloop(lam=0.5), compile=compiled)
    scaler = torch.amp.GradScaler("cpu", init_scale=0.0)
    surgery.backward(scaler.scale(parameter.sum()), scaler.scale(parameter.square().sum()))
    surgery.apply(scaler=scaler)
    assert parameter.grad.isnan().all()
    assert surgery.state_dict()["averages"][0][0].equal(torch.zeros(3))


def test_autocast_leaves_the_fingerprint_of_a_gradient_alone():
    gradient = torch.randn(3 * WIDTH + 7, generator=torch.Generator().manual_seed(0))
    expected = fingerprint(gradient, 1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(fingerprint(gradient, 1), expected)
