"""Trainable tensors outside the surgery get the plain sum of the losses' gradients, as ``(main + aux).backward()``."""

import pytest
import torch
from torch.nn import Linear, ModuleDict, Parameter, Sequential, Tanh
from torch.utils.checkpoint import checkpoint

import gradsurgery as gs
import gradsurgery.torch as gst

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
HEADS = ("main_head", "aux_head")


def make_model():
    torch.manual_seed(0)
    return ModuleDict({name: Linear(4, 4) for name in ("trunk", *HEADS)})


def main_of(model, x=X):
    return model["main_head"](model["trunk"](x)).square().mean()


def aux_of(model, x=X):
    return (model["aux_head"](model["trunk"](x)) - 1).square().mean()


def head_gradients(model):
    return {name: parameter.grad for head in HEADS for name, parameter in model[head].named_parameters(prefix=head)}


def expected_gradients(*losses):
    """Of the heads of a new model, by a plain backward pass of the sum."""
    model = make_model()
    sum(loss(model) for loss in losses).backward()
    return head_gradients(model)


@pytest.mark.parametrize("form", ["tensors", "functions"])
@pytest.mark.parametrize("known", [False, True], ids=["unknown to the surgery", "in its model"])
def test_heads_get_the_plain_sum(form, known):
    model = make_model()
    surgery = gst.Surgery(model["trunk"], gs.bloop(lam=0.1), model=model if known else None)
    for _ in range(2):
        model.zero_grad()
        losses = (lambda: main_of(model)), (lambda: aux_of(model))
        surgery.backward(*(losses if form == "functions" else [loss() for loss in losses]))
        assert all(parameter.grad is None for parameter in model.parameters())  # nothing is written before apply
        surgery.apply()
        torch.testing.assert_close(head_gradients(model), expected_gradients(main_of, aux_of))


def test_the_trunk_gets_the_direction_of_a_surgery_on_the_trunk_alone():
    model, method = make_model(), gs.bloop(lam=0.5, rho=None)
    gradients = [torch.autograd.grad(loss(model), model["trunk"].parameters()) for loss in (main_of, aux_of)]
    expected = gs.Reference(method)(*(torch.cat([g.reshape(-1) for g in loss]) for loss in gradients))
    surgery = gst.Surgery(model["trunk"], method)
    surgery.backward(main_of(model), aux_of(model))
    surgery.apply()
    direction = torch.cat([parameter.grad.reshape(-1) for parameter in model["trunk"].parameters()])
    torch.testing.assert_close(direction, torch.from_numpy(expected).float())


def test_a_plain_tensor_trains():
    temperature, model = torch.zeros((), requires_grad=True), Linear(4, 4)
    optimiser = torch.optim.SGD([*model.parameters(), temperature], lr=0.1)
    surgery = gst.Surgery(model, gs.bloop(lam=0.5))
    for _ in range(3):
        surgery.backward((model(X) * temperature.exp()).square().mean(), (model(X) - 1).square().mean())
        surgery.apply()
        optimiser.step()
        optimiser.zero_grad()
    assert temperature < -0.01


def test_a_frozen_tensor_gets_nothing():
    model = make_model()
    model["aux_head"].requires_grad_(False)
    surgery = gst.Surgery(model["trunk"], gs.bloop(lam=0.1), model=model)
    surgery.backward(main_of(model), aux_of(model))
    surgery.apply()
    assert all(parameter.grad is None for parameter in model["aux_head"].parameters())


class Offloaded(torch.autograd.Function):
    """Runs a layer without autograd and differentiates it in its backward pass, as offloading libraries do."""

    @staticmethod
    def forward(ctx, layer, x):
        ctx.layer = layer
        ctx.save_for_backward(x)
        with torch.no_grad():
            return layer(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            output = ctx.layer(x)
        torch.autograd.backward(output, gradient)
        return None, x.grad


HIDING = {
    "custom function": lambda layer, x: Offloaded.apply(layer, x),
    "reentrant checkpoint": lambda layer, x: checkpoint(layer, x, use_reentrant=True),
    "checkpoint": lambda layer, x: checkpoint(layer, x, use_reentrant=False),
}


@pytest.mark.parametrize("hide", HIDING.values(), ids=HIDING)
@pytest.mark.parametrize("inside", [["trunk", *HEADS], ["trunk"], [*HEADS]], ids=["all", "trunk", "heads"])
def test_parameters_that_the_graph_hides_are_trained_wherever_they_are(hide, inside):
    """``mixed`` with lam = 1 gives the plain sum, so all gradients are those of the sum."""
    model, x = make_model(), X.clone().requires_grad_()
    main = lambda: hide(model["main_head"], hide(model["trunk"], x)).square().mean()  # noqa: E731
    aux = lambda: (hide(model["aux_head"], hide(model["trunk"], x)) - 1).square().mean()  # noqa: E731
    surgery = gst.Surgery(ModuleDict({name: model[name] for name in inside}), gs.mixed(lam=1.0))
    for _ in range(2):
        model.zero_grad()
        surgery.backward(main, aux)
        surgery.apply()
    actual = [parameter.grad for parameter in model.parameters()]
    model.zero_grad()
    (main() + aux()).backward()
    torch.testing.assert_close(actual, [parameter.grad for parameter in model.parameters()])


def test_micro_batches_add_up_and_keep_what_a_plain_backward_left():
    model = make_model()
    surgery = gst.Surgery(model["trunk"], gs.bloop(lam=0.1))
    aux_of(model).backward()
    for rows in X.chunk(2):
        surgery.backward(main_of(model, rows) / 2, aux_of(model, rows) / 2)
    surgery.apply()
    torch.testing.assert_close(head_gradients(model), expected_gradients(main_of, aux_of, aux_of))


def test_under_a_scaler_they_are_scaled_like_the_direction():
    model = make_model()
    surgery = gst.Surgery(model["trunk"], gs.bloop(lam=0.1))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    surgery.backward(scaler.scale(main_of(model)), scaler.scale(aux_of(model)))
    surgery.apply(scaler=scaler)
    scaler.unscale_(optimiser)
    torch.testing.assert_close(head_gradients(model), expected_gradients(main_of, aux_of))


def raise_error():
    raise KeyError("batch")


@pytest.mark.parametrize("before", [False, True], ids=["no gradients before", "gradients before"])
@pytest.mark.parametrize("hide", HIDING.values(), ids=HIDING)
def test_an_exception_in_the_second_loss_leaves_nothing_behind(before, hide):
    model, x = make_model(), X.clone().requires_grad_()
    surgery = gst.Surgery(model["trunk"], gs.bloop(lam=0.1), model=model)
    if before:
        (main_of(model) + aux_of(model)).backward()
    saved = [None if parameter.grad is None else parameter.grad.clone() for parameter in model.parameters()]
    with pytest.raises(KeyError, match="batch"):
        surgery.backward(lambda: hide(model["main_head"], model["trunk"](x)).square().mean(), raise_error)
    for parameter, gradient in zip(model.parameters(), saved, strict=True):
        assert (parameter.grad is None) == (gradient is None)
        assert gradient is None or torch.equal(parameter.grad, gradient)
    with pytest.raises(RuntimeError, match="apply needs gradients"):
        surgery.apply()


@pytest.mark.parametrize("clearing", [("main",), ("aux",), ("main", "aux")])
def test_zero_grad_inside_a_loss_function_clears_what_was_there_before(clearing):
    model = make_model()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.0)
    surgery = gst.Surgery(model["trunk"], gs.mixed(lam=1.0), model=model)

    def loss(name, function):
        if name in clearing:
            optimiser.zero_grad()
        return function(model)

    for _ in range(3):
        surgery.backward(lambda: loss("main", main_of), lambda: loss("aux", aux_of))
        surgery.apply()
        torch.testing.assert_close(head_gradients(model), expected_gradients(main_of, aux_of))


def test_a_hook_that_moves_gradients_into_a_buffer_changes_nothing():
    directions = []
    for hooked in (False, True):
        model, buffer = make_model(), torch.empty(4, 4)

        def move(parameter, buffer=buffer):
            parameter.grad = buffer.copy_(parameter.grad)

        if hooked:
            model["trunk"].weight.register_post_accumulate_grad_hook(move)
        surgery = gst.Surgery(model, gs.bloop(lam=0.5, rho=None))
        surgery.backward(main_of(model), aux_of(model))
        surgery.apply()
        directions.append(model["trunk"].weight.grad)
    torch.testing.assert_close(*directions)


def test_a_hook_that_removes_gradients_is_refused_by_the_name_of_the_parameter():
    model = make_model()

    def offload(parameter):
        parameter.main_grad, parameter.grad = parameter.grad, None

    model["trunk"].weight.register_post_accumulate_grad_hook(offload)
    surgery = gst.Surgery(model, gs.bloop(lam=0.5))
    with pytest.raises(
        RuntimeError, match=r"a hook has removed .* of the main loss from \.grad of trunk\.weight: .*gather"
    ):
        surgery.backward(main_of(model), aux_of(model))


def test_a_sparse_gradient_outside_the_surgery_is_summed():
    table, weight = torch.nn.Embedding(3, 2, sparse=True), Parameter(torch.ones(2))
    surgery = gst.Surgery([weight], gs.bloop(lam=0.5))
    for _ in range(2):
        surgery.backward((table(torch.tensor([1])) * weight).sum(), (table(torch.tensor([2])) + weight).sum())
        surgery.apply()
    torch.testing.assert_close(table.weight.grad.to_dense(), torch.tensor([[0.0, 0.0], [2.0, 2.0], [2.0, 2.0]]))


def test_a_layer_that_is_replaced_after_the_surgery_was_made_is_refused_until_it_is_added():
    """Its plain sum would have weight 1 for aux, whatever lam is."""
    torch.manual_seed(0)
    model, method = Sequential(Linear(4, 4), Tanh(), Linear(4, 3)), gs.bloop(lam=0.1)
    surgery, temperature = gst.Surgery(model, method), Parameter(torch.ones(()))
    losses = lambda: (model(X).square().mean() * temperature, model(X).sin().mean())  # noqa: E731
    surgery.backward(*losses())  # a parameter outside the module is fine
    surgery.apply()
    model[2] = Linear(4, 3)
    with pytest.raises(RuntimeError, match=r"it had not when the surgery was made: 2.weight, 2.bias; make the surgery"):
        surgery.backward(*losses())
    surgery.add_param_group({"params": model[2]})
    model.zero_grad()
    surgery.backward(*losses())
    surgery.apply()
    main, aux = (torch.autograd.grad(loss, model[2].weight)[0] for loss in losses())
    assert torch.linalg.vector_norm(model[2].weight.grad - main) < 0.11 * torch.linalg.vector_norm(aux)


def test_a_new_layer_is_refused_where_an_input_was_in_memory():
    """CPython gives the address of a tensor that is gone, and with it the id, to the next one."""
    model = Sequential(Linear(4, 4))
    surgery, seen = gst.Surgery(model, gs.bloop(lam=0.1)), set()
    for _ in range(3):
        inputs = X.clone().requires_grad_()
        seen.add(id(inputs))
        surgery.backward(model(inputs).square().mean(), model(inputs).sin().mean())
        surgery.apply()
        del inputs
    candidates = []
    while not candidates or (id(candidates[-1].weight) not in seen and len(candidates) < 1000):
        candidates.append(Linear(4, 4, bias=False))
    model.append(candidates[-1])
    with pytest.raises(RuntimeError, match=r"it had not when the surgery was made: 1.weight; make the surgery"):
        surgery.backward(model(X).square().mean(), model(X).sin().mean())
