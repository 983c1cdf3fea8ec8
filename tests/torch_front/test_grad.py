"""``.grad`` is added to, as by ``loss.backward()``, and an exception leaves nothing behind."""

import pytest
import torch
from torch.nn import Embedding, Parameter

import gradsurgery as gs
import gradsurgery.torch as gst

MAIN, AUX, OTHER = torch.tensor([2.0, 0.0]), torch.tensor([4.0, 6.0]), torch.tensor([0.5, 7.0])
DIRECTION = torch.tensor([2.0, 3.0])
"""The direction of ``METHOD`` for the gradients main and aux."""
METHOD = gs.bloop(lam=0.5, rho=None)

eager_and_compiled = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


def make_surgery(compiled=False, method=METHOD):
    weight = Parameter(torch.zeros(2))
    return weight, gst.Surgery([weight], method, compile=compiled)


def losses(weight):
    return (weight * MAIN).sum(), (weight * AUX).sum()


@eager_and_compiled
@pytest.mark.parametrize("place", ["before", "between micro-batches", "before apply", "after"])
def test_the_gradients_of_a_plain_backward_are_kept(place, compiled):
    weight, surgery = make_surgery(compiled)

    def plain_backward(now):
        if now == place:
            (weight * OTHER).sum().backward()

    plain_backward("before")
    surgery.backward(*(loss / 2 for loss in losses(weight)))
    plain_backward("between micro-batches")
    surgery.backward(*(loss / 2 for loss in losses(weight)))
    plain_backward("before apply")
    surgery.apply()
    plain_backward("after")
    torch.testing.assert_close(weight.grad, DIRECTION + OTHER)


def test_steps_without_zero_grad_add_up():
    weight, surgery = make_surgery()
    for count in (1, 2, 3):
        surgery.backward(*losses(weight))
        surgery.apply()
        torch.testing.assert_close(weight.grad, count * DIRECTION)


def test_an_existing_gradient_is_updated_in_place():
    weight, surgery = make_surgery()
    weight.grad = buffer = torch.zeros(2)  # as zero_grad(set_to_none=False) leaves it
    surgery.backward(*losses(weight))
    assert weight.grad is buffer
    assert buffer.tolist() == [0.0, 0.0]
    surgery.apply()
    assert weight.grad is buffer
    torch.testing.assert_close(buffer, DIRECTION)


def test_without_a_gradient_the_direction_is_not_copied():
    weight, surgery = make_surgery()
    surgery.backward(*losses(weight))
    aux = surgery._gatherer.gradients[1][0].data_ptr()
    surgery.apply()
    assert weight.grad.data_ptr() == aux


def test_a_parameter_that_no_loss_reaches_keeps_its_gradient():
    weight, _ = make_surgery()
    unreached = Parameter(torch.zeros(2))
    surgery = gst.Surgery([weight, unreached], METHOD)
    unreached.grad = OTHER.clone()
    surgery.backward(*losses(weight))
    surgery.apply()
    torch.testing.assert_close(unreached.grad, OTHER)


def test_a_sparse_gradient_is_added_to():
    table = Embedding(2, 2, sparse=True)
    surgery = gst.Surgery(table.parameters(), METHOD)
    table(torch.tensor([1])).sum().backward()
    surgery.backward(table.weight[0].sum(), table.weight.sum())
    surgery.apply()
    torch.testing.assert_close(table.weight.grad, torch.tensor([[1.0, 1.0], [1.5, 1.5]]))


def test_under_a_scaler_the_direction_has_the_scale_of_other_gradients():
    weight, surgery = make_surgery()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale((weight * OTHER).sum()).backward()
    surgery.backward(*map(scaler.scale, losses(weight)))
    surgery.apply(scaler=scaler)
    scaler.unscale_(torch.optim.SGD([weight], lr=1.0))
    torch.testing.assert_close(weight.grad, DIRECTION + OTHER)


def failing_schedule(step):
    if failing_schedule.fails:
        raise RuntimeError("no such step")
    return 0.5


failing_schedule.fails = False


@eager_and_compiled
def test_after_an_exception_in_apply_the_next_step_is_right(compiled):
    weight, surgery = make_surgery(compiled, gs.bloop(lam=failing_schedule, rho=0.5))
    weight.grad = OTHER.clone()
    surgery.backward(*losses(weight))
    failing_schedule.fails = True
    with pytest.raises(RuntimeError, match="no such step"):
        surgery.apply()
    failing_schedule.fails = False
    torch.testing.assert_close(weight.grad, OTHER)
    assert surgery.state_dict()["steps"] == 0
    weight.grad = None
    surgery.backward(*losses(weight))
    surgery.apply()
    torch.testing.assert_close(weight.grad, MAIN + 0.5 * AUX)


def raise_error():
    raise KeyError("batch")


@pytest.mark.parametrize("micro_batches", [0, 1], ids=["first", "second micro-batch"])
def test_after_an_exception_in_backward_the_next_step_is_right(micro_batches):
    weight, surgery = make_surgery()
    weight.grad = OTHER.clone()
    for _ in range(micro_batches):
        surgery.backward(*losses(weight))
    with pytest.raises(KeyError, match="batch"):
        surgery.backward(losses(weight)[0], raise_error)
    torch.testing.assert_close(weight.grad, OTHER)
    with pytest.raises(RuntimeError, match="apply needs gradients"):
        surgery.apply()
    surgery.backward(*losses(weight))
    surgery.apply()
    torch.testing.assert_close(weight.grad, DIRECTION + OTHER)


class Square(torch.autograd.Function):
    """|w|^2 / 2, whose backward pass returns the saved parameter itself as its gradient."""

    @staticmethod
    def forward(context, weight):
        context.save_for_backward(weight)
        return weight.square().sum() / 2

    @staticmethod
    def backward(context, _):
        return context.saved_tensors[0].detach()


@pytest.mark.parametrize("inside", [True, False])
def test_memory_that_autograd_hands_on_is_not_written_to(inside):
    """Whether the parameter is part of the surgery, or a leaf outside that gets the sum."""
    weight, other = (torch.nn.Parameter(torch.arange(1.0, 5.0)) for _ in range(2))
    surgery = gst.Surgery([weight if inside else other], gs.mixed(lam=1.0))
    for order in (0, 1):
        losses = [Square.apply(weight) + other.sum(), weight.sum() + other.sum()]
        surgery.backward(*(losses if order == 0 else reversed(losses)))
        surgery.apply()
        assert weight.tolist() == [1.0, 2.0, 3.0, 4.0]
        assert weight.grad.tolist() == [2.0, 3.0, 4.0, 5.0]
        weight.grad = other.grad = None


@pytest.mark.parametrize("compile", [False, True])  # the argument of Surgery
def test_a_gradient_with_the_negative_bit_counts_as_it_is(compile):  # noqa: A002
    class Negative(torch.autograd.Function):
        @staticmethod
        def forward(context, weight):
            return weight.sum()

        @staticmethod
        def backward(context, _):
            return torch._neg_view(torch.ones(40_000))

    weight = torch.nn.Parameter(torch.ones(40_000))
    surgery = gst.Surgery([weight], gs.mixed(lam=1.0), compile=compile)
    surgery.backward(5 * weight.sum(), Negative.apply(weight))
    surgery.apply()
    assert weight.grad.unique().tolist() == [4.0]
