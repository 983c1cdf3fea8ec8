"""A small model, two losses of its output, and the direction that a method should give for them."""

import torch
from torch.nn import Linear, Sequential, Tanh

import gradsurgery as gs
from tests.device import DEVICE


def make_model(seed=0):
    torch.manual_seed(seed)
    return Sequential(Linear(4, 8), Tanh(), Linear(8, 3)).double()


def main_of(output):
    return output.square().mean()


def aux_of(output):
    return output.sin().mean()


GENERATOR = torch.Generator("cpu").manual_seed(0)
INPUTS = torch.randn(12, 4, generator=GENERATOR, dtype=torch.float64, device="cpu").to(DEVICE)


def expected_direction(model, method, inputs=INPUTS):
    """The direction of a first step, by autograd and ``Reference``."""
    output = model(inputs)
    grads = [
        torch.cat(
            [grad.reshape(-1) for grad in torch.autograd.grad(loss(output), model.parameters(), retain_graph=True)]
        )
        for loss in (main_of, aux_of)
    ]
    return torch.from_numpy(gs.Reference(method)(*(grad.cpu() for grad in grads))).to(DEVICE)


def direction_of(model):
    return torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()])


def shared_pass(model):
    """Both losses from one forward pass."""
    output = model(INPUTS)
    return main_of(output), aux_of(output)
