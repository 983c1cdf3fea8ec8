"""Models that are converted or moved after the surgery was made, lazy ones, and calls in the wrong place."""

import pytest
import torch
from torch.nn import LazyLinear, Linear, Parameter

import gradsurgery as gs
import gradsurgery.torch as gst

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
eager_and_compiled = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


def step(model, surgery, x=X):
    model.zero_grad()
    output = model(x)
    surgery.backward(output.square().mean(), (output - 1).pow(4).mean())
    surgery.apply()


@eager_and_compiled
@pytest.mark.parametrize("trained", [False, True], ids=["before the first step", "between steps"])
def test_a_model_made_double_computes_in_double(compiled, trained):
    torch.manual_seed(0)
    model = Linear(4, 3)
    surgery = gst.Surgery(model, gs.bloop(lam=0.5, rho=0.3), compile=compiled)
    if trained:
        step(model, surgery)
    model.double()
    reference = gst.Surgery(model, gs.bloop(lam=0.5, rho=0.3))
    if trained:
        reference.load_state_dict(surgery.state_dict())
    for _ in range(3):
        step(model, surgery, X.double())
        direction = [parameter.grad for parameter in model.parameters()]
        step(model, reference, X.double())
        expected = [parameter.grad for parameter in model.parameters()]
        torch.testing.assert_close(direction, expected, rtol=1e-12, atol=1e-12)
    assert surgery.diagnostics()["sound"].dtype == torch.float64
    assert {average.dtype for average in surgery.state_dict()["averages"][0].values()} == {torch.float64}


@eager_and_compiled
def test_a_model_made_half_keeps_averages_in_single(compiled):
    model = Linear(4, 3)
    surgery = gst.Surgery(model, gs.bloop(lam=0.5, rho=0.3), compile=compiled)
    step(model, surgery)
    model.bfloat16()
    step(model, surgery, X.bfloat16())
    assert model.weight.grad.dtype == torch.bfloat16
    assert {average.dtype for average in surgery.state_dict()["averages"][0].values()} == {torch.float32}


@pytest.mark.parametrize("trained", [False, True], ids=["before the first step", "between steps"])
def test_after_a_move_to_a_device_nothing_waits_for_it(trained):
    """Tensors on the meta device have no values: reading one raises."""
    model = Linear(4, 3)
    surgery = gst.Surgery(model, gs.bloop(lam=0.5, rho=0.3), measure=True)
    if trained:
        step(model, surgery)
    for parameter in model.parameters():  # as model.to(device) does
        torch.utils.swap_tensors(parameter, Parameter(parameter.detach().to("meta")))
    for _ in range(2):
        step(model, surgery, X.to("meta"))
    assert {value.device.type for value in surgery.diagnostics().values()} == {"meta"}
    assert surgery.state_dict()["mass"][0].device.type == "meta"


def test_a_type_that_changes_between_backward_and_apply_gets_one_sentence():
    model = Linear(4, 3)
    surgery = gst.Surgery(model, gs.bloop(lam=0.5))
    output = model(X)
    surgery.backward(output.square().mean(), output.sum())
    model.half()
    with pytest.raises(
        RuntimeError, match=r"keep their type and device between backward\(\) and apply\(\); got"
    ) as raised:
        surgery.apply()
    assert "\n" not in str(raised.value)


def test_inference_mode_is_refused():
    model = Linear(4, 3)
    surgery = gst.Surgery(model, gs.bloop(lam=0.5))
    output = model(X)
    surgery.backward(output.square().mean(), output.sum())
    with torch.inference_mode(), pytest.raises(RuntimeError, match=r"outside torch\.inference_mode"):
        surgery.apply()
    step(model, surgery)


def test_a_lazy_module_has_a_repr_and_trains():
    model = LazyLinear(3)
    surgery = gst.Surgery(model, gs.bloop(lam=0.5))
    assert repr(surgery) == "Surgery(bloop(lam=0.5, rho=0.01), 2 trainable parameters, 0 elements and 2 uninitialised)"
    step(model, surgery)
    assert repr(surgery) == "Surgery(bloop(lam=0.5, rho=0.01), 2 trainable parameters, 15 elements)"


def test_unscaling_before_apply_is_refused():
    model = Linear(4, 3)
    surgery = gst.Surgery(model, gs.bloop(lam=0.5))
    optimiser, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=8.0)
    for unscale_first in (False, True):
        optimiser.zero_grad()
        output = model(X)
        surgery.backward(scaler.scale(output.square().mean()), scaler.scale(output.sum()))
        if unscale_first:
            scaler.scale(model(X).sum()).backward()
            scaler.unscale_(optimiser)
            with pytest.raises(RuntimeError, match=r"must be called before scaler\.unscale_"):
                surgery.apply(scaler=scaler)
        else:
            surgery.apply(scaler=scaler)
            scaler.unscale_(optimiser)
            scaler.step(optimiser)
            scaler.update()


def test_a_parameter_of_another_type_that_is_unfrozen_later_is_refused():
    frozen, parameter = Parameter(torch.ones(3, dtype=torch.complex64), requires_grad=False), Parameter(torch.ones(3))
    surgery = gst.Surgery([frozen, parameter], gs.bloop(lam=0.5))
    frozen.requires_grad_(True)
    surgery.backward((frozen.abs() * parameter).sum(), parameter.square().sum())
    with pytest.raises(ValueError, match=r"must be of type float16, .*; got one of type torch.complex64"):
        surgery.apply()
