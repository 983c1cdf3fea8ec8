"""Gradients and hyperparameters at the edge of float32: a step is right, or unsound and without consequences."""

import numpy as np
import pytest
import torch
from torch.nn import Parameter

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.device import DEVICE

eager_and_compiled = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
RNG = np.random.default_rng(0)
MAIN, AUX, THIRD = (torch.from_numpy(RNG.normal(size=1000)).float().to(DEVICE) for _ in range(3))


def step(surgery, parameter, *gradients, **options):
    """One step on these gradients; returns the direction."""
    parameter.grad = None
    surgery.backward(*((parameter * gradient).sum() for gradient in gradients))
    surgery.apply(**options)
    return parameter.grad


def make_surgery(method, compiled, **options):
    parameter = Parameter(torch.zeros(1000))
    return gst.Surgery([parameter], method, compile=compiled, **options), parameter


def saved_numbers(surgery):
    state = surgery.state_dict()
    return [*state["mass"].values(), *state["memory"], *(level[0] for level in state["averages"])]


HUGE = {
    "pcgrad, main": (gs.pcgrad(lam=1.0, rho=0.1), [MAIN * 1e22, AUX]),
    "bloop, main": (gs.bloop(lam=1.0, rho=0.1), [MAIN * 1e22, AUX]),
    "bloop with two levels, aux": (gs.bloop(lam=(1.0, 1.0), rho=0.1), [MAIN, AUX * 1e22, THIRD]),
}


@pytest.mark.slow
@eager_and_compiled
@pytest.mark.parametrize(("method", "huge"), HUGE.values(), ids=HUGE)
def test_one_huge_gradient_does_not_spoil_later_steps(method, huge, compiled):
    surgery, parameter = make_surgery(method, compiled)
    usual = [MAIN, AUX, THIRD][: len(huge)]
    step(surgery, parameter, *usual)
    before = saved_numbers(surgery)
    assert step(surgery, parameter, *huge).isnan().all()
    torch.testing.assert_close(saved_numbers(surgery), before, rtol=0, atol=0)
    reference = gs.Reference(method)
    for _ in range(2):
        expected = reference(*(gradient.cpu() for gradient in usual))
    torch.testing.assert_close(
        step(surgery, parameter, *usual).double(), torch.from_numpy(expected).to(DEVICE), rtol=1e-4, atol=1e-5
    )


EXTREME = {
    "tiny average": (gs.bloop(lam=0.5), 3e-19, 1e20, gs.mixed(lam=0.5)),  # its square counts as 0: nothing is rejected
    "large lam": (gs.bloop(lam=1e9), 1e-16, 1e15, None),
    "large lam, no average": (gs.bloop(lam=1e9, rho=None), 1e-16, 1e15, None),
    "lengths": (gs.metabalance(), 1e15, 1e-15, gs.metabalance()),
}
"""A method, the scales of main and aux, and the method whose direction a sound step has; None if a weight overflows."""


@pytest.mark.slow
@eager_and_compiled
@pytest.mark.parametrize("measure", [False, True])
@pytest.mark.parametrize(("method", "main", "aux", "same_as"), EXTREME.values(), ids=EXTREME)
def test_a_step_is_unsound_exactly_where_a_weight_overflows(method, main, aux, same_as, measure, compiled):
    surgery, parameter = make_surgery(method, compiled, measure=measure)
    gradients = MAIN * main, (AUX + MAIN) * aux
    step(surgery, parameter, MAIN * main, MAIN * main)
    before = saved_numbers(surgery)
    direction = step(surgery, parameter, *gradients)
    assert bool(surgery.diagnostics()["sound"]) == (same_as is not None)
    if same_as:
        expected = gs.Reference(same_as)(*(gradient.double().cpu() for gradient in gradients))
        torch.testing.assert_close(direction.double(), torch.from_numpy(expected).to(DEVICE), rtol=1e-5, atol=0)
    else:
        assert direction.isnan().all()
        torch.testing.assert_close(saved_numbers(surgery), before, rtol=0, atol=0)


@pytest.mark.slow
@eager_and_compiled
def test_a_weight_that_overflows_in_the_narrowest_type_makes_the_step_unsound(compiled):
    narrow, wide = Parameter(torch.zeros(3)), Parameter(torch.zeros(3, dtype=torch.float64))
    surgery = gst.Surgery([narrow, wide], gs.mixed(lam=1e39), compile=compiled)
    surgery.backward(narrow.sum() + wide.sum(), 1e-30 * narrow.sum() + wide.sum())
    surgery.apply()
    assert narrow.grad.isnan().all()
    assert wide.grad.isnan().all()


@eager_and_compiled
def test_a_weight_that_overflows_by_the_scale_makes_the_step_unsound(compiled):
    surgery, parameter = make_surgery(gs.bloop(lam=1e4), compiled)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100)
    step(surgery, parameter, MAIN * 1e-14, MAIN)
    before = saved_numbers(surgery)
    parameter.grad = None
    surgery.backward(scaler.scale((parameter * MAIN * 1e-14).sum()), scaler.scale((parameter * MAIN * 1e3).sum()))
    surgery.apply(scaler=scaler)
    assert parameter.grad.isnan().all()
    torch.testing.assert_close(saved_numbers(surgery), before, rtol=0, atol=0)


def remaining_part(scale, rho, compiled):
    """The part of aux along the average that is left after the projection, in units of |aux| |average|."""
    surgery, parameter = make_surgery(gs.bloop(lam=1.0, rho=rho), compiled)
    main, aux = MAIN * scale, (MAIN + AUX) * scale
    step(surgery, parameter, main, aux)
    projected = (step(surgery, parameter, main, aux) - main).double()
    average = main.double()
    return float(projected @ average / (aux.double().norm() * average.norm()))


@eager_and_compiled
@pytest.mark.parametrize(("scale", "rho"), [(1e-17, 0.01), (1e-13, 1e-6), (1.0, 1e-6), (1e12, 0.01)])
def test_tiny_gradients_are_projected_as_any_other(scale, rho, compiled):
    assert abs(remaining_part(scale, rho, compiled)) < 1e-6


@eager_and_compiled
@pytest.mark.parametrize("scale", [1e-19, 1e-20, 1e-21, 1e-22, 1e-25])
def test_where_squares_underflow_nothing_is_rejected(scale, compiled):
    unprojected = float((MAIN + AUX) @ MAIN / ((MAIN + AUX).norm() * MAIN.norm()))
    assert remaining_part(scale, 0.01, compiled) == pytest.approx(unprojected, rel=1e-4)


@eager_and_compiled
@pytest.mark.parametrize("rho", [0.999999, torch.tensor(0.999999, dtype=torch.float64)], ids=["number", "tensor"])
def test_rho_close_to_1_keeps_the_digits_of_the_old_average(rho, compiled):
    surgery, parameter = make_surgery(gs.bloop(lam=1.0, rho=rho), compiled)
    step(surgery, parameter, torch.ones(1000), AUX)
    step(surgery, parameter, torch.zeros(1000), AUX)
    torch.testing.assert_close(surgery.state_dict()["averages"][0][0], torch.full((1000,), 1e-6), rtol=1e-5, atol=0)
