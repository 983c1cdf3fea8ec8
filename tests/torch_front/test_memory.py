"""Gradients that share memory, with one another or with a user's tensor: the direction is written in place."""

import pytest
import torch
from torch.nn import Parameter

import gradsurgery as gs
import gradsurgery.torch as gst

SHARED = {
    "parts of a larger gradient": lambda a, b, c: torch.cat([a, b]) + c.view(-1),
    "views of the same memory": lambda a, b, c: a.view(-1, 2) + b.view(-1, 2) + c[0].view(-1, 2) + c[1].view(-1, 2),
    "the same memory with another dimension": lambda a, b, c: a.unsqueeze(0) + b.unsqueeze(0) + c[:1],
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("size", [8, 1 << 16], ids=["small", "large"])
@pytest.mark.parametrize("combine", SHARED.values(), ids=SHARED)
def test_gradients_that_share_memory_are_separated(combine, size, compiled):
    torch.manual_seed(0)
    parameters = [Parameter(torch.zeros(size)), Parameter(torch.zeros(size)), Parameter(torch.zeros(2, size))]
    surgery = gst.Surgery(parameters, gs.mixed(lam=0.5), compile=compiled)
    weights = [torch.randn(combine(*parameters).shape) for _ in range(2)]
    losses = [lambda weight=weight: (combine(*parameters) * weight).sum() for weight in weights]
    for _ in range(2):  # micro-batches
        surgery.backward(*losses)
    surgery.apply()
    expected = torch.autograd.grad(2 * losses[0]() + losses[1](), parameters)
    for parameter, gradient in zip(parameters, expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


BUFFER = torch.ones(8)


class FromBuffer(torch.autograd.Function):
    """Sums four numbers; its gradient is a slice of a tensor in use."""

    @staticmethod
    def forward(ctx, numbers):
        return numbers.sum()

    @staticmethod
    def backward(ctx, gradient):
        return BUFFER[:4]


def test_a_gradient_that_is_a_slice_of_a_tensor_in_use_is_copied():
    parameter = Parameter(torch.zeros(4))
    surgery = gst.Surgery([parameter], gs.mixed(lam=5.0))
    surgery.backward(parameter.sum(), FromBuffer.apply(parameter))
    surgery.apply()
    assert parameter.grad.tolist() == [6.0] * 4
    assert BUFFER.tolist() == [1.0] * 8
