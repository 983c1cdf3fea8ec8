"""The forms that a loss can take, and what its backward pass visits and leaves alone."""

import weakref

import pytest
import torch
from torch.nn import Parameter
from torch.utils.checkpoint import checkpoint

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.torch_front.small_model import (
    INPUTS,
    aux_of,
    direction_of,
    expected_direction,
    main_of,
    make_model,
    shared_pass,
)

LOSSES = {
    "tensors of one pass": shared_pass,
    "tensors of two passes": lambda model: (main_of(model(INPUTS)), aux_of(model(INPUTS))),
    "functions": lambda model: (lambda: main_of(model(INPUTS)), lambda: aux_of(model(INPUTS))),
    "a tensor and a function": lambda model: (main_of(model(INPUTS)), lambda: aux_of(model(INPUTS))),
    "one-element tensors": lambda model: tuple(loss.reshape(1) for loss in shared_pass(model)),
}


@pytest.mark.parametrize("losses", LOSSES.values(), ids=LOSSES)
def test_losses_of_every_form_give_the_direction(losses):
    model, method = make_model(), gs.bloop(lam=0.5, rho=None)
    surgery = gst.Surgery(model.parameters(), method)
    values = surgery.backward(*losses(model))
    surgery.apply()
    torch.testing.assert_close(direction_of(model), expected_direction(model, method))
    torch.testing.assert_close(values[0].reshape(()), main_of(model(INPUTS)).detach())
    assert not values[1].requires_grad


def test_a_loss_of_the_parameters_alone_gives_the_direction():
    model, method = make_model(), gs.bloop(lam=0.5, rho=None)
    surgery = gst.Surgery(model.parameters(), method)
    for _ in range(2):
        model.zero_grad()
        surgery.backward(main_of(model(INPUTS)), lambda: sum(p.square().sum() for p in model.parameters()) / 2)
        surgery.apply()
        main = torch.cat([g.reshape(-1) for g in torch.autograd.grad(main_of(model(INPUTS)), model.parameters())])
        weights = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
        expected = gs.Reference(method)(main, weights)
        torch.testing.assert_close(direction_of(model), torch.from_numpy(expected))


def test_functions_are_called_in_turn_with_one_graph_alive():
    model, alive, counts = make_model(), weakref.WeakSet(), []

    class Tracked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            token = torch.zeros(1)
            alive.add(token)
            ctx.token = token
            counts.append(len(alive))
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    surgery = gst.Surgery(model.parameters(), gs.bloop(lam=(0.5, 0.1)))
    losses = [lambda k=k: (Tracked.apply(model(INPUTS)) + k).square().mean() for k in range(3)]
    surgery.backward(*losses)
    assert counts == [1, 1, 1]


def test_a_graph_that_no_later_loss_needs_is_freed_at_once():
    model = make_model()
    surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.5))
    main, aux = main_of(model(INPUTS)), aux_of(model(INPUTS))
    surgery.backward(main, aux)
    for loss in (main, aux):
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
    main, aux = shared_pass(model)
    surgery.apply()
    surgery.backward(main, aux)
    with pytest.raises(RuntimeError, match="second time"):
        aux.backward()


def test_a_loss_that_is_itself_a_parameter_outside_the_surgery_leaves_nothing_behind():
    ours, theirs = Parameter(torch.ones(2)), Parameter(torch.ones(()))
    with pytest.raises(RuntimeError, match="main loss must reach a parameter of the surgery; it reaches none"):
        gst.Surgery([ours], gs.mixed(lam=1.0)).backward(theirs, ours.sum())
    assert theirs.grad is None


W = Parameter(torch.ones(3))
BAD_LOSSES = {
    "not a scalar": (lambda: (W * 2, W.sum()), ValueError, r"the main loss must be a scalar; got .* shape \(3,\)"),
    "aux not a scalar": (lambda: (W.sum(), W * 2), ValueError, r"the aux loss must be a scalar"),
    "no graph": (lambda: (W.sum(), torch.tensor(1.0)), ValueError, "the aux loss must have a graph"),
    "a float": (lambda: (W.sum(), 1.0), TypeError, r"the aux loss must be a scalar tensor or a function .*; got 1.0"),
    "a function that returns None": (
        lambda: (W.sum(), lambda: None),
        TypeError,
        "function of the aux loss must return .* got None",
    ),
    "outputs of a model": (
        lambda: (W.sum(), {"loss": W.sum(), "logits": W.expand(9, 3)}),
        TypeError,
        r"the aux loss must be a scalar tensor or a function that returns one; got a dict$",
    ),
    "a function that returns the outputs of a model": (
        lambda: (lambda: {"loss": W.sum(), "logits": W.expand(9, 3)}, W.sum()),
        TypeError,
        r"the function of the main loss must return a scalar tensor; got a dict$",
    ),
    "other parameters": (
        lambda: (W.sum(), Parameter(torch.ones(1)).sum()),
        RuntimeError,
        "aux loss must reach a param",
    ),
    "three losses": (lambda: (W.sum(), W.sum(), W.sum()), ValueError, "takes 1 auxiliary gradient; got 2"),
    "one loss": (lambda: (W.sum(),), ValueError, "at least one auxiliary loss; got none"),
}


@pytest.mark.parametrize(("losses", "error", "sentence"), BAD_LOSSES.values(), ids=BAD_LOSSES)
def test_bad_losses_get_one_sentence_and_leave_nothing_behind(losses, error, sentence):
    surgery = gst.Surgery([W], gs.bloop(lam=0.5))
    with pytest.raises(error, match=sentence) as raised:
        surgery.backward(*losses())
    assert "\n" not in str(raised.value)
    assert W.grad is None
    with pytest.raises(RuntimeError, match="apply needs gradients"):
        surgery.apply()


def test_functions_that_share_a_graph_get_advice():
    surgery = gst.Surgery([W], gs.bloop(lam=0.5))
    hidden = W.exp()
    with pytest.raises(RuntimeError, match=r"another loss that shares its forward pass: give such losses as tensors"):
        surgery.backward(lambda: hidden.sum(), lambda: hidden.square().sum())


@pytest.mark.parametrize("index", [0, 1])
def test_a_graph_freed_by_an_earlier_backward_is_named_as_the_cause(index):
    surgery = gst.Surgery([W], gs.bloop(lam=0.5))
    losses = [W.exp().sum(), W.square().sum()]
    losses[index].backward()
    W.grad = None
    name = ("main", "aux")[index]
    with pytest.raises(
        RuntimeError, match=rf"the graph of the {name} loss has been freed, by an earlier loss.backward"
    ):
        surgery.backward(*losses)


def test_freezing_every_parameter_gets_one_sentence():
    frozen, other = Parameter(torch.ones(2)), Parameter(torch.ones(2))
    surgery = gst.Surgery([frozen], gs.mixed(lam=1.0))
    frozen.requires_grad_(False)
    with pytest.raises(RuntimeError, match="main loss must reach a parameter of the surgery; it reaches none"):
        surgery.backward((frozen * other).sum(), other.sum())


def test_sparse_gradients_are_refused():
    table = torch.nn.Embedding(5, 2, sparse=True)
    surgery = gst.Surgery(table.parameters(), gs.bloop(lam=0.5))
    with pytest.raises(TypeError, match=r"the gradient of the main loss must be dense; got .*sparse=False"):
        surgery.backward(table(torch.tensor([1])).sum(), table(torch.tensor([2])).sum())


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing_changes_nothing(reentrant):
    """The reentrant kind hides parameters from a backward pass restricted to some inputs."""
    model = make_model()
    surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.5, rho=None))

    def output():
        inputs = INPUTS.clone().requires_grad_()
        return checkpoint(model, inputs, use_reentrant=reentrant)

    surgery.backward(lambda: main_of(output()), lambda: aux_of(output()))
    surgery.apply()
    torch.testing.assert_close(direction_of(model), expected_direction(model, surgery.method))


@pytest.mark.parametrize("as_functions", [True, False], ids=["functions", "tensors"])
@pytest.mark.parametrize("checkpointed_step", [0, 2])
def test_reentrant_checkpointing_may_change_between_steps(checkpointed_step, as_functions):
    model = make_model()
    surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.5, rho=None))
    for step in range(4):

        def output(checkpointed=step == checkpointed_step):
            inputs = INPUTS.clone().requires_grad_()
            return checkpoint(model, inputs, use_reentrant=True) if checkpointed else model(inputs)

        model.zero_grad()
        losses = (lambda: main_of(output())), (lambda: aux_of(output()))
        surgery.backward(*(losses if as_functions else [loss() for loss in losses]))
        surgery.apply()
        torch.testing.assert_close(direction_of(model), expected_direction(model, surgery.method))


@pytest.mark.parametrize("set_to_none", [False, True])
def test_an_optimiser_that_steps_in_the_backward_pass_is_refused(set_to_none):
    weight = Parameter(torch.ones(2))
    optimiser = torch.optim.SGD([weight], lr=0.1)

    def step_in_backward(parameter):
        optimiser.step()
        optimiser.zero_grad(set_to_none=set_to_none)

    weight.register_post_accumulate_grad_hook(step_in_backward)
    surgery = gst.Surgery([weight], gs.bloop(lam=0.1))
    with pytest.raises(RuntimeError, match="must not step in a loss function or in a hook of the backward pass"):
        surgery.backward(weight[0], weight[1])


def test_an_optimiser_that_steps_in_a_loss_function_is_refused():
    weight = Parameter(torch.ones(2))
    optimiser = torch.optim.SGD([weight], lr=0.1)

    def main():
        weight.sum().backward()
        optimiser.step()
        return weight[0]

    surgery = gst.Surgery([weight], gs.bloop(lam=0.1))
    with pytest.raises(RuntimeError, match="must not step in a loss function"):
        surgery.backward(main, lambda: weight[1])
    optimiser.step()


def test_an_optimiser_of_a_head_that_steps_in_the_backward_pass_is_refused():
    trunk, head = Parameter(torch.ones(2)), Parameter(torch.ones(2))
    optimiser = torch.optim.SGD([head], lr=0.1)
    head.register_post_accumulate_grad_hook(lambda parameter: optimiser.step())
    surgery = gst.Surgery([trunk], gs.bloop(lam=0.1))
    with pytest.raises(RuntimeError, match="parameters changed in the backward pass of the main loss"):
        surgery.backward(lambda: (trunk * head).sum(), lambda: trunk.sum())
