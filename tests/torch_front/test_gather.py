"""``surgery.gather``: gradients that the user has computed, from ``torch.func`` or in buffers."""

import pytest
import torch
from torch.func import functional_call, grad
from torch.nn import Linear, Parameter

import gradsurgery as gs
import gradsurgery.torch as gst

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def make_model():
    torch.manual_seed(0)
    return Linear(4, 3)


def main_of(output):
    return output.square().mean()


def aux_of(output):
    return (output - 1).pow(4).mean()


def expected_direction(method):
    """By ``backward``."""
    model = make_model()
    surgery = gst.Surgery(model, method)
    surgery.backward(main_of(model(X)), aux_of(model(X)))
    surgery.apply()
    return [parameter.grad for parameter in model.parameters()]


METHOD = gs.bloop(lam=0.5, rho=None)


def test_dictionaries_of_torch_func():
    model = make_model()
    surgery = gst.Surgery(model, METHOD)
    params = {name: parameter.detach() for name, parameter in model.named_parameters()}
    gradients = [grad(lambda p, f=loss: f(functional_call(model, p, X)))(params) for loss in (main_of, aux_of)]
    surgery.gather(*gradients)
    surgery.apply()
    torch.testing.assert_close([parameter.grad for parameter in model.parameters()], expected_direction(METHOD))


def test_lists_in_micro_batches_from_a_buffer_that_is_used_again():
    model = make_model()
    surgery = gst.Surgery(model, METHOD)
    buffers = [[torch.zeros_like(parameter) for parameter in model.parameters()] for _ in range(2)]
    for _ in range(2):
        for buffer, loss in zip(buffers, (main_of, aux_of), strict=True):
            torch._foreach_zero_(buffer)
            for target, gradient in zip(
                buffer, torch.autograd.grad(loss(model(X)) / 2, model.parameters()), strict=True
            ):
                target.copy_(gradient)
        surgery.gather(*buffers)
    before = [[gradient.clone() for gradient in buffer] for buffer in buffers]
    surgery.apply()
    torch.testing.assert_close([parameter.grad for parameter in model.parameters()], expected_direction(METHOD))
    torch.testing.assert_close(buffers, before)  # they were copied


def test_none_and_missing_names_mean_not_reached():
    model = make_model()
    weight = torch.ones(3, 4)
    surgery = gst.Surgery(model, METHOD)
    surgery.gather([weight, None], {"weight": weight})
    surgery.apply()
    assert model.bias.grad is None
    torch.testing.assert_close(model.weight.grad, weight)  # aux is parallel to main


def test_backward_and_gather_accumulate_together():
    model = make_model()
    surgery = gst.Surgery(model, METHOD)
    surgery.backward(main_of(model(X)) / 2, aux_of(model(X)) / 2)
    surgery.gather(*(torch.autograd.grad(loss(model(X)) / 2, model.parameters()) for loss in (main_of, aux_of)))
    surgery.apply()
    torch.testing.assert_close([parameter.grad for parameter in model.parameters()], expected_direction(METHOD))


GOOD = [torch.ones(3, 4), torch.ones(3)]
BAD = {
    "too few": ([GOOD[0]], ValueError, "main must have 2 gradients, one for each parameter; got 1"),
    "a tensor": (GOOD[0], TypeError, "the gradients of main must be a list of tensors, or a dictionary by name; got"),
    "a number": (3, TypeError, "the gradients of main must be a list of tensors"),
    "a list of numbers": ([1.0, 2.0], TypeError, "the gradient of main for weight must be a tensor or None; got 1.0"),
    "another name": ({"wieght": GOOD[0]}, ValueError, "the names of parameters of the surgery; got wieght"),
    "another shape": ([torch.ones(4, 3), GOOD[1]], ValueError, r"for weight must be .* \(3, 4\).*; got .* \(4, 3\)"),
    "another type": ([GOOD[0].double(), GOOD[1]], ValueError, r"must be .*torch.float32.*; got .*torch.float64"),
    "another device": ([GOOD[0].to("meta"), GOOD[1]], ValueError, "on cpu; got .* on meta"),
    "sparse": ([GOOD[0].to_sparse(), GOOD[1]], ValueError, "for weight must be .*; got .*torch.sparse_coo"),
    "nothing": ([None, None], ValueError, "main must have at least one gradient; got none"),
}


@pytest.mark.parametrize(("given", "error", "sentence"), BAD.values(), ids=BAD)
def test_bad_gradients_get_one_sentence_and_leave_nothing_behind(given, error, sentence):
    model = make_model()
    surgery = gst.Surgery(model, METHOD)
    with pytest.raises(error, match=sentence) as raised:
        surgery.gather(given, GOOD)
    assert "\n" not in str(raised.value)
    with pytest.raises(RuntimeError, match="apply needs gradients"):
        surgery.apply()


def test_a_gradient_for_a_frozen_parameter_is_refused():
    model = make_model()
    surgery = gst.Surgery(model, METHOD)
    model.bias.requires_grad_(False)
    surgery.gather([GOOD[0], None], [GOOD[0], None])
    with pytest.raises(ValueError, match="the gradient of main for bias must be None, as the parameter is frozen"):
        surgery.gather(GOOD, GOOD)


def test_gradients_taken_from_grad_are_refused_while_they_are_there():
    """The direction would be added to the gradient of aux."""
    model = make_model()
    surgery, gradients = gst.Surgery(model, METHOD), []
    for loss in (main_of, aux_of):
        model.zero_grad()
        loss(model(X)).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    with pytest.raises(ValueError, match=r"the gradient of aux for weight must be apart from \.grad, .*; got \.grad"):
        surgery.gather(*gradients)
    model.zero_grad()
    surgery.gather(*gradients)
    surgery.apply()
    torch.testing.assert_close([parameter.grad for parameter in model.parameters()], expected_direction(METHOD))


def test_the_number_of_losses_is_checked():
    surgery = gst.Surgery(make_model(), METHOD)
    with pytest.raises(ValueError, match="auxiliary"):
        surgery.gather(GOOD, GOOD, GOOD)


def test_names_need_a_module_or_named_parameters():
    weight = Parameter(torch.ones(2))
    surgery = gst.Surgery([("w", weight)], METHOD)
    surgery.gather({"w": torch.ones(2)}, {"w": torch.ones(2)})
    with pytest.raises(ValueError, match="the names of parameters of the surgery; got w"):
        gst.Surgery([weight], METHOD).gather({"w": torch.ones(2)}, {"w": torch.ones(2)})


def test_a_name_that_several_parameters_have_is_refused():
    layers = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    surgery = gst.Surgery([{"params": layer} for layer in layers], gs.mixed(lam=1.0))
    gradients = {"weight": torch.ones(2, 2)}
    with pytest.raises(ValueError, match="names that one parameter has; got weight, which several have"):
        surgery.gather(gradients, gradients)


def test_gradients_with_a_graph_can_be_gathered_twice():
    weight = torch.nn.Parameter(torch.ones(2))
    surgery = gst.Surgery([weight], gs.mixed(lam=1.0))
    for _ in range(2):
        surgery.gather(torch.autograd.grad(weight.square().sum(), [weight], create_graph=True), [torch.ones(2)])
    surgery.apply()
    assert weight.grad.tolist() == [6.0, 6.0]


def test_inference_mode_is_refused_at_once():
    weight = torch.nn.Parameter(torch.ones(2))
    with torch.inference_mode(), pytest.raises(RuntimeError, match="must be used outside"):
        gst.Surgery([weight], gs.mixed(lam=1.0)).gather([torch.ones(2)], [torch.ones(2)])
