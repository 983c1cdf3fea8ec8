"""``Surgery`` in a training loop: parameters of all kinds, optimisers, and what it refuses."""

import gc
import weakref

import pytest
import torch
from torch.nn import Linear, Parameter

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.torch_front.small_model import INPUTS, aux_of, direction_of, expected_direction, main_of, shared, some_model

W = Parameter(torch.ones(3))


def test_accumulation_over_micro_batches_is_the_large_batch():
    method = gs.bloop(lam=0.5, rho=0.3)
    models = [some_model(), some_model()]
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
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(one, other)


def test_parameters_that_no_loss_reaches_keep_no_gradient():
    trunk, main_head, aux_head, unused = (Linear(4, 4).double() for _ in range(4))
    frozen = Linear(4, 4).double().requires_grad_(False)
    everything = torch.nn.ModuleList([trunk, main_head, aux_head, unused, frozen])
    surgery = gst.Surgery(everything.parameters(), gs.bloop(lam=0.5, rho=0.5))
    for _ in range(2):
        hidden = frozen(trunk(INPUTS))
        losses = main_of(main_head(hidden)), aux_of(aux_head(hidden))
        expected_aux = 0.5 * torch.autograd.grad(losses[1], aux_head.weight, retain_graph=True)[0]
        surgery.backward(*losses)
        surgery.apply()
        assert unused.weight.grad is None
        assert frozen.weight.grad is None
        assert trunk.weight.grad is not None
        torch.testing.assert_close(aux_head.weight.grad, expected_aux)  # main counts as zero there


def test_a_parameter_reached_before_but_not_now_lets_its_average_fade():
    trunk, head = Parameter(torch.ones(2)), Parameter(torch.ones(2))
    surgery = gst.Surgery([trunk, head], gs.bloop(lam=0.5, rho=0.5))
    surgery.backward(trunk.sum() + head.sum(), trunk.sum())
    surgery.apply()
    surgery.backward(trunk.sum(), trunk.sum())
    surgery.apply()
    assert head.grad is None
    torch.testing.assert_close(surgery.state_dict()["averages"][0][1], torch.full((2,), 1 / 3))


def test_tied_parameters_and_groups_count_once():
    weight = Parameter(torch.tensor([2.0, 0.0]))
    groups = [{"params": [weight], "lr": 0.1}, {"params": weight, "lr": 0.2}, {"params": (p for p in [weight])}]
    for params in (groups, [weight, weight], [("name", weight)]):
        surgery = gst.Surgery(params, gs.bloop(lam=0.5, rho=None))
        surgery.backward((weight * torch.tensor([2.0, 0.0])).sum(), (weight * torch.tensor([4.0, 6.0])).sum())
        surgery.apply()
        torch.testing.assert_close(weight.grad, torch.tensor([2.0, 3.0]))


def test_what_is_in_grad_before_does_not_matter():
    model, method = some_model(), gs.bloop(lam=0.5, rho=None)
    surgery = gst.Surgery(model.parameters(), method)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 7.0)
    surgery.backward(*shared(model))
    surgery.apply()
    torch.testing.assert_close(direction_of(model), expected_direction(model, method))


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
def test_any_optimiser_and_scheduler_with_clipping_gets_the_direction(make):
    method = gs.bloop(lam=0.5, rho=0.3)
    model, twin, step = some_model(), some_model(), gs.Reference(method)
    surgery = gst.Surgery(model.parameters(), method)
    optimisers = [make(one.parameters()) for one in (model, twin)]
    schedulers = [torch.optim.lr_scheduler.StepLR(optimiser, 2, gamma=0.5) for optimiser in optimisers]
    for _ in range(6):
        surgery.backward(*shared(model))
        surgery.apply()
        losses = shared(twin)
        grads = [torch.autograd.grad(loss, twin.parameters(), retain_graph=True) for loss in losses]
        direction = torch.from_numpy(step(*(torch.cat([g.reshape(-1) for g in grad]) for grad in grads)))
        sizes = [parameter.numel() for parameter in twin.parameters()]
        for parameter, part in zip(twin.parameters(), direction.split(sizes), strict=True):
            parameter.grad = part.reshape(parameter.shape).clone()
        for one, optimiser, scheduler in zip((model, twin), optimisers, schedulers, strict=True):
            torch.nn.utils.clip_grad_norm_(one.parameters(), 0.05)
            optimiser.step()
            optimiser.zero_grad()
            scheduler.step()
    for one, other in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_a_compiled_model_trains_the_same():
    method = gs.bloop(lam=0.5, rho=0.3)
    results = []
    for compiled in (False, True):
        model = some_model()
        run = torch.compile(model, backend="aot_eager") if compiled else model
        surgery, optimiser = gst.Surgery(model.parameters(), method), torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            surgery.backward(*shared(run))
            surgery.apply()
            optimiser.step()
            optimiser.zero_grad()
        results.append(list(model.parameters()))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_schedules_follow_the_count_of_steps():
    weight, seen = Parameter(torch.ones(1)), []
    surgery = gst.Surgery([weight], gs.mixed(lam=lambda step: 0.5 * step))
    for _ in range(3):
        surgery.backward(0 * weight.sum(), weight.sum())
        surgery.apply()
        seen.append(weight.grad.item())
    assert seen == [0.0, 0.5, 1.0]


def test_diagnostics_are_those_of_the_last_step():
    weight = Parameter(torch.zeros(2))
    surgery = gst.Surgery([weight], gs.bloop(lam=0.5, rho=0.5), measure=True)
    assert surgery.diagnostics() == {}
    for main, aux in [([2.0, 0.0], [1.0, 1.0]), ([3.0, 4.0], [-5.0, 0.0])]:
        surgery.backward((weight * torch.tensor(main)).sum(), (weight * torch.tensor(aux)).sum())
        surgery.apply()
    found = {name: value.item() for name, value in surgery.diagnostics().items()}
    expected = {"cos_main_aux": -0.6, "cos_main_average": 0.6, "removed": 1.0, "conflict": 1.0, "sound": 1.0}
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_lam_may_be_a_tensor_that_changes(compiled):
    lam, weight = torch.tensor(0.5, requires_grad=True), Parameter(torch.tensor([2.0, 0.0]))
    surgery = gst.Surgery([weight], gs.bloop(lam=lam, rho=None), compile=compiled)
    for factor in (1.0, 2.0):
        lam.data = torch.tensor(0.5 * factor)
        surgery.backward((weight * torch.tensor([2.0, 0.0])).sum(), (weight * torch.tensor([4.0, 6.0])).sum())
        surgery.apply()
        torch.testing.assert_close(weight.grad, torch.tensor([2.0, 3.0 * factor]))
        assert not weight.grad.requires_grad


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ([], ValueError, "at least one parameter, but it is empty"),
        (W, TypeError, "an iterable of parameters such as model.parameters"),
        ([1.0], TypeError, "params holds parameters, but got 1.0"),
        ([W * 2], ValueError, "a leaf tensor of real numbers, .* computed from others"),
        ([torch.ones(1, dtype=torch.int64)], ValueError, "real numbers, but got one of type torch.int64"),
    ],
)
def test_bad_parameters_get_one_sentence(params, error, sentence):
    with pytest.raises(error, match=sentence):
        gst.Surgery(params, gs.bloop(lam=0.5))


def test_surgery_takes_a_method():
    with pytest.raises(TypeError, match=r"such as gradsurgery.bloop\(lam=0.1\), but got 'bloop'"):
        gst.Surgery([W], "bloop")


def test_the_number_of_losses_stays_while_gradients_gather():
    surgery = gst.Surgery([W], gs.mixed(lam=0.5))
    surgery.backward(W.sum(), W.sum())
    with pytest.raises(ValueError, match="with 2 losses before, but got 3"):
        surgery.backward(W.sum(), W.sum(), W.sum())


def test_no_cycle_keeps_gradients_alive():
    weight = Parameter(torch.ones(1000))
    surgery = gst.Surgery([weight], gs.bloop(lam=0.5))
    surgery.backward(weight.sum(), weight.square().sum())
    main = weakref.ref(surgery._gathering.gradients[0][0])
    gc.disable()
    try:
        surgery.apply()
        assert main() is None  # the direction is where the gradient of aux was
    finally:
        gc.enable()
