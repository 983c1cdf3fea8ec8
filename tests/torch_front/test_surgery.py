"""``Surgery`` in a training loop: kinds of parameters, optimisers, and bad arguments."""

import gc
import weakref

import pytest
import torch
from torch.nn import Linear, Parameter

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.device import DEVICE
from tests.torch_front.small_model import (
    INPUTS,
    aux_of,
    direction_of,
    expected_direction,
    main_of,
    make_model,
    shared_pass,
)

W = Parameter(torch.ones(3))
FLOAT8 = Parameter(torch.ones(3).to(torch.float8_e4m3fn))


def test_accumulation_over_micro_batches_is_the_large_batch():
    method = gs.bloop(lam=0.5, rho=0.3)
    models = [make_model(), make_model()]
    surgeries = [gst.Surgery(model.parameters(), method) for model in models]
    optimisers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in models]
    for _ in range(5):
        for model, surgery, optimiser, parts in zip(models, surgeries, optimisers, (1, 4), strict=True):
            for batch in INPUTS.chunk(parts):
                output = model(batch)
                surgery.backward(main_of(output) / parts, aux_of(output) / parts)
            surgery.apply()
            optimiser.step()
            optimiser.zero_grad()
    for actual, expected in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("index", [0, 2], ids=["of the trunk", "of a head"])
def test_an_optimiser_that_steps_before_apply_is_refused(index):
    model = make_model()
    surgery = gst.Surgery(model[0], gs.bloop(lam=0.5))
    optimiser, other = (torch.optim.SGD(layer.parameters(), lr=0.1) for layer in (model[index], Linear(2, 2)))
    torch.optim.lr_scheduler.StepLR(optimiser, 2)
    surgery.backward(*shared_pass(model))
    with pytest.raises(RuntimeError, match=r"gathered but not applied: call surgery.apply\(\) before optimizer.step"):
        optimiser.step()
    other.step()
    surgery.apply()
    optimiser.step()


def test_a_batch_that_is_skipped_after_backward_is_discarded():
    """``zero_grad`` does not reach what was gathered, so a step with more micro-batches than before warns."""
    model, method = make_model(), gs.mixed(lam=0.5)
    surgery, expected = gst.Surgery(model, method), expected_direction(model, method)
    for skips in (False, True):
        if skips:
            surgery.backward(*shared_pass(model))
            surgery.discard()
        model.zero_grad()
        surgery.backward(*shared_pass(model))
        surgery.apply()
        torch.testing.assert_close(direction_of(model), expected)
    surgery.backward(*shared_pass(model))
    model.zero_grad()
    with pytest.warns(UserWarning, match=r"at most 1: .* call surgery.discard\(\)") as caught:
        surgery.backward(*shared_pass(model))
    assert [warning.filename for warning in caught] == [__file__]


def test_parameters_that_no_loss_reaches_get_no_gradient():
    trunk, main_head, aux_head, unused = (Linear(4, 4).double() for _ in range(4))
    frozen = Linear(4, 4).double().requires_grad_(False)
    everything = torch.nn.ModuleList([trunk, main_head, aux_head, unused, frozen])
    surgery = gst.Surgery(everything.parameters(), gs.bloop(lam=0.5, rho=0.5))
    for _ in range(2):
        everything.zero_grad()
        hidden = frozen(trunk(INPUTS))
        losses = main_of(main_head(hidden)), aux_of(aux_head(hidden))
        expected_aux = 0.5 * torch.autograd.grad(losses[1], aux_head.weight, retain_graph=True)[0]
        surgery.backward(*losses)
        surgery.apply()
        assert unused.weight.grad is None
        assert frozen.weight.grad is None
        assert trunk.weight.grad is not None
        torch.testing.assert_close(aux_head.weight.grad, expected_aux)  # main counts as zero there


def test_tied_parameters_and_groups_count_once():
    weight = Parameter(torch.tensor([2.0, 0.0]))
    groups = [{"params": [weight]}, {"params": weight}, {"params": (p for p in [weight])}]
    for params in (groups, [weight, weight], [("name", weight)]):
        weight.grad = None
        surgery = gst.Surgery(params, gs.bloop(lam=0.5, rho=None))
        surgery.backward((weight * torch.tensor([2.0, 0.0])).sum(), (weight * torch.tensor([4.0, 6.0])).sum())
        surgery.apply()
        torch.testing.assert_close(weight.grad, torch.tensor([2.0, 3.0]))


@pytest.mark.parametrize(
    "make",
    [
        lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, nesterov=True),
        lambda params: torch.optim.Adam(params, lr=0.01),
        lambda params: torch.optim.AdamW(params, lr=0.01, foreach=True),
        lambda params: torch.optim.RMSprop(params, lr=0.01),
        lambda params: torch.optim.Adagrad(params, lr=0.01),
        lambda params: torch.optim.Rprop(params, lr=0.01),
    ],
    ids=["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Rprop"],
)
def test_optimisers_schedulers_and_clipping_see_the_direction(make):
    method = gs.bloop(lam=0.5, rho=0.3)
    model, twin, step = make_model(), make_model(), gs.Reference(method)
    surgery = gst.Surgery(model.parameters(), method)
    optimisers = [make(network.parameters()) for network in (model, twin)]
    schedulers = [torch.optim.lr_scheduler.StepLR(optimiser, 2, gamma=0.5) for optimiser in optimisers]
    for _ in range(6):
        surgery.backward(*shared_pass(model))
        surgery.apply()
        losses = shared_pass(twin)
        grads = [torch.autograd.grad(loss, twin.parameters(), retain_graph=True) for loss in losses]
        direction = torch.from_numpy(step(*(torch.cat([g.reshape(-1) for g in grad]).cpu() for grad in grads))).to(
            DEVICE
        )
        sizes = [parameter.numel() for parameter in twin.parameters()]
        for parameter, part in zip(twin.parameters(), direction.split(sizes), strict=True):
            parameter.grad = part.reshape(parameter.shape).clone()
        for network, optimiser, scheduler in zip((model, twin), optimisers, schedulers, strict=True):
            torch.nn.utils.clip_grad_norm_(network.parameters(), 0.05)
            optimiser.step()
            optimiser.zero_grad()
            scheduler.step()
    for actual, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.slow
def test_a_compiled_model_trains_the_same():
    method = gs.bloop(lam=0.5, rho=0.3)
    results = []
    for compiled in (False, True):
        model = make_model()
        run = torch.compile(model, backend="aot_eager") if compiled else model
        surgery, optimiser = gst.Surgery(model.parameters(), method), torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            surgery.backward(*shared_pass(run))
            surgery.apply()
            optimiser.step()
            optimiser.zero_grad()
        results.append(list(model.parameters()))
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected)


def test_schedules_follow_the_count_of_steps():
    weight, directions = Parameter(torch.ones(1)), []
    surgery = gst.Surgery([weight], gs.mixed(lam=lambda step: 0.5 * step))
    for _ in range(3):
        weight.grad = None
        surgery.backward(0 * weight.sum(), weight.sum())
        surgery.apply()
        directions.append(weight.grad.item())
    assert directions == [0.0, 0.5, 1.0]


def test_diagnostics_are_those_of_the_last_step():
    weight = Parameter(torch.zeros(2))
    surgery = gst.Surgery([weight], gs.bloop(lam=0.5, rho=0.5), measure=True)
    assert surgery.diagnostics() == {}
    for main, aux in [([2.0, 0.0], [1.0, 1.0]), ([3.0, 4.0], [-5.0, 0.0])]:
        surgery.backward((weight * torch.tensor(main)).sum(), (weight * torch.tensor(aux)).sum())
        surgery.apply()
    actual = {name: value.item() for name, value in surgery.diagnostics().items()}
    expected = {"cos_main_aux": -0.6, "cos_main_average": 0.6, "removed": 1.0, "conflict": 1.0, "sound": 1.0}
    assert {name: actual[name] for name in expected} == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_lam_may_be_a_tensor_that_changes(compiled):
    lam, weight = torch.tensor(0.5, requires_grad=True), Parameter(torch.tensor([2.0, 0.0]))
    surgery = gst.Surgery([weight], gs.bloop(lam=lam, rho=None), compile=compiled)
    for factor in (1.0, 2.0):
        weight.grad = None
        lam.data = torch.tensor(0.5 * factor)
        surgery.backward((weight * torch.tensor([2.0, 0.0])).sum(), (weight * torch.tensor([4.0, 6.0])).sum())
        surgery.apply()
        torch.testing.assert_close(weight.grad, torch.tensor([2.0, 3.0 * factor]))
        assert not weight.grad.requires_grad


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ([], ValueError, "at least one parameter; got none"),
        (W, TypeError, "a module or an iterable of parameters; got one tensor"),
        ([1.0], TypeError, "params must hold parameters; got 1.0"),
        ([W * 2], ValueError, "must be a leaf tensor; got one computed from others"),
        (torch.optim.SGD([W]), TypeError, "a module or parameters; got the optimiser SGD"),
        (3, TypeError, "a module or an iterable of parameters; got 3"),
        ([{"parameters": [W]}], ValueError, "parameters under 'params'; got the keys parameters"),
        ([torch.ones(1), torch.ones(2)], ValueError, "must be trainable; got 2 without requires_grad"),
        ([Parameter(torch.ones(2, dtype=torch.complex64))], ValueError, "float64; got one of type torch.complex64"),
        ([FLOAT8], ValueError, "float64; got one of type torch.float8_e4m3fn"),
    ],
)
def test_bad_parameters_get_one_sentence(params, error, sentence):
    with pytest.raises(error, match=sentence) as raised:
        gst.Surgery(params, gs.bloop(lam=0.5))
    assert "\n" not in str(raised.value)


def test_a_method_is_required():
    with pytest.raises(TypeError, match=r"such as gradsurgery.bloop\(lam=0.1\); got 'bloop'"):
        gst.Surgery([W], "bloop")


def test_the_number_of_losses_is_the_same_in_all_micro_batches():
    surgery = gst.Surgery([W], gs.mixed(lam=0.5))
    surgery.backward(W.sum(), W.sum())
    with pytest.raises(ValueError, match="the same number of losses, 2; got 3"):
        surgery.backward(W.sum(), W.sum(), W.sum())


def test_apply_frees_the_gradient_of_main_at_once():
    weight = Parameter(torch.ones(1000))
    surgery = gst.Surgery([weight], gs.bloop(lam=0.5))
    surgery.backward(weight.sum(), weight.square().sum())
    main = weakref.ref(surgery._gatherer.gradients[0][0])
    gc.disable()
    try:
        surgery.apply()
        assert main() is None  # the direction is in the memory of the gradient of aux
    finally:
        gc.enable()


def test_a_frozen_parameter_of_any_type_is_skipped():
    quantised = Parameter(torch.ones(3, dtype=torch.int8), requires_grad=False)
    surgery = gst.Surgery([quantised, W], gs.bloop(lam=0.5))
    surgery.backward(W.sum(), W.square().sum())
    surgery.apply()
    assert quantised.grad is None
    assert list(surgery.state_dict()["averages"][0]) == [1]
    W.grad = None


def test_repr_shows_the_method_and_the_parameters():
    surgery = gst.Surgery(Linear(40, 50).parameters(), gs.bloop(lam=0.1, rho=0.01))
    assert repr(surgery) == "Surgery(bloop(lam=0.1, rho=0.01), 2 trainable parameters, 2,050 elements)"
