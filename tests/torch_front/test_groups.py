"""Groups of parameters, each with its own method."""

import copy

import pytest
import torch
from torch.nn import Linear, ModuleDict, Parameter

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.torch_front.test_state import assert_equal_states

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TRUNK_METHOD, HEAD_METHOD = gs.bloop(lam=0.3, rho=0.2), gs.mixed(lam=1.0)
HEADS = ("main_head", "aux_head")


def make_model(seed=0):
    torch.manual_seed(seed)
    return ModuleDict({name: Linear(4, 4) for name in ("trunk", *HEADS)}).double()


def heads_of(model):
    return [parameter for head in HEADS for parameter in model[head].parameters()]


def make_surgery(model, **options):
    groups = [{"params": model["trunk"].parameters(), "method": TRUNK_METHOD}, {"params": heads_of(model)}]
    return gst.Surgery(groups, HEAD_METHOD, **options)


def make_losses(model, x=X):
    hidden = model["trunk"](x).tanh()
    return model["main_head"](hidden).square().mean(), model["aux_head"](hidden).sin().mean()


def train(model, surgery, optimiser, steps, start=0):
    for step in range(start, start + steps):
        surgery.backward(*make_losses(model, X * (1 + 0.1 * step)))
        surgery.apply()
        optimiser.step()
        optimiser.zero_grad()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_each_group_follows_its_own_method(compiled):
    model, twin = make_model(), make_model()
    surgery = make_surgery(model, compile=compiled)
    train(model, surgery, torch.optim.SGD(model.parameters(), lr=0.1), 4)
    references = [gs.Reference(TRUNK_METHOD), gs.Reference(HEAD_METHOD)]
    groups = [list(twin["trunk"].parameters()), heads_of(twin)]
    for step in range(4):
        losses = make_losses(twin, X * (1 + 0.1 * step))
        for reference, group in zip(references, groups, strict=True):
            gradients = [
                torch.autograd.grad(loss, group, retain_graph=True, allow_unused=True, materialize_grads=True)
                for loss in losses
            ]
            direction = torch.from_numpy(
                reference(*(torch.cat([g.detach().reshape(-1) for g in grad]) for grad in gradients))
            )
            parts = direction.split([parameter.numel() for parameter in group])
            for parameter, part in zip(group, parts, strict=True):
                parameter.grad = part.reshape(parameter.shape)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter -= 0.1 * parameter.grad
    for actual, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(actual, expected)


def test_groups_without_a_method_share_inner_products():
    model, twin = make_model(), make_model()
    trunk = list(model["trunk"].parameters())
    for network, params in (
        (model, [{"params": trunk}, *heads_of(model)]),
        (twin, [*twin.parameters()]),
    ):
        train(network, gst.Surgery(params, TRUNK_METHOD), torch.optim.SGD(network.parameters(), lr=0.1), 3)
    for actual, expected in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("attached", [False, True], ids=["surgery saved", "attached"])
def test_a_run_with_groups_resumes_bit_for_bit(attached):
    runs = []
    for _ in range(2):
        model = make_model()
        surgery, optimiser = make_surgery(model), torch.optim.Adam(model.parameters(), lr=0.01)
        if attached:
            surgery.attach(optimiser)
        runs.append((model, surgery, optimiser))
    straight, resumed = runs
    train(*straight, 3)
    for part, other in zip(resumed, straight, strict=True):
        if not (attached and isinstance(part, gst.Surgery)):
            part.load_state_dict(copy.deepcopy(other.state_dict()))
    train(*straight, 3, start=3)
    train(*resumed, 3, start=3)
    for actual, expected in zip(resumed[0].parameters(), straight[0].parameters(), strict=True):
        assert torch.equal(actual, expected)
    for actual, expected in zip(*(run[1].state_dict()["groups"] for run in runs), strict=True):
        assert_equal_states(actual, expected)


def test_an_unsound_group_makes_the_whole_step_unsound():
    first, second = Parameter(torch.ones(2)), Parameter(torch.ones(2))
    method = gs.bloop(lam=0.5, rho=0.5)
    surgery = gst.Surgery([{"params": first, "method": method}, second], method)
    surgery.backward(first.sum() + second.sum(), first.sum() + second.sum())
    surgery.apply()
    before = surgery.state_dict()["groups"]
    surgery.backward(first.sum() * torch.inf + second.sum(), first.sum() + second.sum())
    surgery.apply()
    assert first.grad.isnan().all()
    assert second.grad.isnan().all()
    assert not surgery.diagnostics()["sound"]
    for actual, expected in zip(surgery.state_dict()["groups"], before, strict=True):
        assert_equal_states({**actual, "steps": 1}, expected)


def test_a_group_that_no_loss_reaches_gets_no_gradient():
    first, second = Parameter(torch.ones(2)), Parameter(torch.ones(2))
    surgery = gst.Surgery([{"params": second, "method": gs.bloop(lam=0.5)}, first], gs.bloop(lam=0.5))
    surgery.backward(first.sum(), first.sum())
    surgery.apply()
    assert second.grad is None
    torch.testing.assert_close(first.grad, torch.full((2,), 1.5))


@pytest.mark.parametrize("own_method", [False, True], ids=["shared method", "own method"])
def test_a_group_may_be_added_during_training(own_method):
    model = make_model()
    surgery = gst.Surgery(model["trunk"].parameters(), gs.mixed(lam=0.5))
    trunk_losses = (model["trunk"](X).square().mean(), model["trunk"](X).sin().mean())
    surgery.backward(*trunk_losses)
    with pytest.raises(RuntimeError, match=r"between backward\(\) and apply\(\): call surgery.apply\(\) first"):
        surgery.add_param_group({"params": heads_of(model)})
    surgery.apply()
    model.zero_grad()
    surgery.add_param_group({"params": heads_of(model), **({"method": gs.mixed(lam=2.0)} if own_method else {})})
    losses = make_losses(model)
    expected = torch.autograd.grad(losses[1], model["aux_head"].weight, retain_graph=True)[0] * (
        2.0 if own_method else 0.5
    )
    surgery.backward(*losses)
    surgery.apply()
    torch.testing.assert_close(model["aux_head"].weight.grad, expected)
    assert ("groups" in surgery.state_dict()) == own_method
    with pytest.raises(ValueError, match="in one group only; 4 are in two"):
        surgery.add_param_group({"params": heads_of(model)})


def test_the_shared_method_may_change_its_hyperparameters():
    model = make_model()
    surgery = make_surgery(model)
    surgery.method = gs.mixed(lam=3.0)
    losses = make_losses(model)
    expected = 3 * torch.autograd.grad(losses[1], model["aux_head"].weight, retain_graph=True)[0]
    surgery.backward(*losses)
    surgery.apply()
    torch.testing.assert_close(model["aux_head"].weight.grad, expected)


def test_diagnostics_carry_the_number_of_the_group():
    model = make_model()
    surgery = make_surgery(model, measure=True)
    surgery.backward(*make_losses(model))
    surgery.apply()
    names = set(surgery.diagnostics())
    assert {"group0/removed", "group1/removed", "group0/cos_main_aux", "sound"} <= names
    assert not {"removed", "group0/sound"} & names


W, V = Parameter(torch.ones(3)), Parameter(torch.ones(3))


@pytest.mark.parametrize(
    ("params", "error", "sentence"),
    [
        ([{"params": [W], "lam": 0.1}], ValueError, "must be params and method; got lam too: hyperparameters"),
        (torch.optim.SGD([W]).param_groups, ValueError, "; got lr, .* too: .* learning rates in the optimiser"),
        ([{"params": [W], "method": "bloop"}], TypeError, "must be one such as .*; got 'bloop'"),
        ([{"params": [W], "method": gs.agem()}, W], ValueError, "in one group only; 1 are in two"),
    ],
)
def test_bad_groups_get_one_sentence(params, error, sentence):
    with pytest.raises(error, match=sentence) as raised:
        gst.Surgery(params, gs.bloop(lam=0.5))
    assert "\n" not in str(raised.value)


def test_a_state_with_other_groups_is_refused():
    plain, grouped = gst.Surgery([W, V], gs.agem()), gst.Surgery([{"params": W, "method": gs.agem()}, V], gs.agem())
    with pytest.raises(ValueError, match="must be one of 2 methods; got one of 1"):
        grouped.load_state_dict(plain.state_dict())
    with pytest.raises(ValueError, match=r"must have the keys method, .*; got groups"):
        plain.load_state_dict(grouped.state_dict())


def test_a_method_that_no_group_uses_cannot_be_assigned():
    surgery = gst.Surgery([{"params": [Parameter(torch.ones(1))], "method": gs.mixed(lam=1.0)}], gs.mixed(lam=1.0))
    with pytest.raises(ValueError, match=r"every group of this Surgery has a separate method"):
        surgery.method = gs.mixed(lam=3.0)


def test_only_a_method_can_be_assigned():
    surgery = gst.Surgery([Parameter(torch.ones(1))], gs.mixed(lam=1.0))
    with pytest.raises(TypeError, match=r"must be one such as gradsurgery\.bloop\(lam=0\.1\); got 0\.3"):
        surgery.method = 0.3


def test_a_layer_of_a_group_that_is_replaced_is_not_trained_in_silence():
    trunk, head = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)), torch.nn.Linear(3, 1)
    surgery = gst.Surgery([{"params": trunk, "method": gs.bloop(lam=0.1)}, {"params": head}], gs.mixed(lam=0.0))
    trunk[0] = torch.nn.Linear(3, 3)
    output = head(trunk(torch.ones(4, 3)))
    with pytest.raises(RuntimeError, match=r"parameters that it had not when the surgery was made: 0\.weight, 0\.bias"):
        surgery.backward(output.square().mean(), output.sum())
