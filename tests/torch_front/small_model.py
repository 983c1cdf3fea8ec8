"""A small model, two losses of its output, and the direction that a method should give for them."""

import torch
from torch.nn import Linear, Sequential, Tanh

import gradsurgery as gs


def make_model(seed=0):
    torch.manual_seed(seed)
    return Sequential(Linear(4, 8), Tanh(), Linear(8, 3)).double()


def main_of(output):
    return output.square().mean()


def aux_of(output):
    return output.sin().mean()


INPUTS = torch.randn(12, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def expected_direction(model, method, inputs=INPUTS):
    """The direction of a first step, by autograd and ``Reference``."""
    output = model(inputs)
    grads = [
        torch.cat(
            [grad.reshape(-1) for grad in torch.autograd.grad(loss(output), model.parameters(), retain_graph=True)]
        )
        for loss in (main_of, aux_of)
    ]
    return torch.from_numpy(gs.Reference(method)(*grads))


def direction_of(model):
    return torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()])


def shared_pass(model):
    """Both losses from one forward pass."""
    output = model(INPUTS)
    return main_of(output), aux_of(output)
