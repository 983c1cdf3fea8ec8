"""A loss that reaches trainable parameters outside the surgery warns once."""

import warnings

import pytest
import torch
from torch.nn import Linear, ModuleDict, Parameter

import gradsurgery as gs
import gradsurgery.torch as gst

X = torch.ones(3, 4)


def make_losses(model):
    hidden = model["trunk"](X)
    return model["main_head"](hidden).square().mean(), model["aux_head"](hidden).square().mean()


def make_model():
    return ModuleDict({name: Linear(4, 4) for name in ("trunk", "main_head", "aux_head")})


def test_a_warning_names_the_parameters_once():
    model = make_model()
    surgery = gst.Surgery(model["trunk"].parameters(), gs.bloop(lam=0.5))
    names = {f"{head}.{kind}" for head in ("main_head", "aux_head") for kind in ("weight", "bias")}
    with pytest.warns(UserWarning, match="does not train 4 trainable parameters that the losses reach") as caught:
        surgery.backward(*make_losses(model))
    assert [warning.filename for warning in caught] == [__file__]
    assert all(name in str(caught[0].message) for name in names)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        surgery.apply()
        surgery.backward(*make_losses(model))


def test_a_parameter_of_no_module_is_described_by_its_shape():
    weight, other = Parameter(torch.ones(3)), Parameter(torch.ones(3))
    surgery = gst.Surgery([weight], gs.bloop(lam=0.5))
    with pytest.warns(UserWarning, match=r"1 trainable parameter that the losses reach \(of shape \(3,\)\): add it"):
        surgery.backward((weight * other).sum(), weight.sum())


def test_frozen_parameters_and_inputs_with_gradients_do_not_warn():
    model = make_model()
    for head in ("main_head", "aux_head"):
        model[head].requires_grad_(False)
    surgery = gst.Surgery(model["trunk"].parameters(), gs.bloop(lam=0.5))
    inputs = X.clone().requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        surgery.backward(model["main_head"](model["trunk"](inputs)).sum(), model["trunk"](inputs).square().sum())
    assert inputs.grad is None
