"""Parameters take part in a step if they are trainable and a loss reaches them; they may join, rest and leave."""

import copy

import numpy as np
import pytest
import torch
from torch.nn import Linear, Parameter

import gradsurgery as gs
import gradsurgery.torch as gst
from gradsurgery.plan import average_weights
from gradsurgery.reference import ReferenceState
from tests.torch_front.test_state import assert_equal_states

eager_and_compiled = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
SIZES = (10, 1000, 3)
RHO = 0.1

HISTORIES = {
    "all": [{0, 1, 2}] * 8,
    "one leaves": [{0, 1, 2}] * 3 + [{0, 2}] * 5,
    "one joins": [{0, 2}] * 3 + [{0, 1, 2}] * 5,
    "one rests": [{0, 1, 2}] * 3 + [{0, 2}] * 2 + [{0, 1, 2}] * 3,
    "they take turns": [{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}, {1}],
}
every_history = pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)


@eager_and_compiled
@every_history
def test_aux_opposed_to_main_gives_the_direction_of_main(history, compiled):
    """In every step of a parameter but its first, in which it has no average and nothing is removed."""
    torch.manual_seed(0)
    slopes = [torch.randn(size) for size in SIZES]
    parameters = [Parameter(torch.zeros(size)) for size in SIZES]
    surgery = gst.Surgery(parameters, gs.bloop(lam=1.0, rho=RHO), compile=compiled)
    joined = set()
    for members in history:
        main = sum(slopes[k] @ parameters[k] for k in members)
        surgery.backward(main, -2 * main)
        surgery.apply()
        for index, (parameter, slope) in enumerate(zip(parameters, slopes, strict=True)):
            if index not in members:
                assert parameter.grad is None
            else:
                factor = 1 if index in joined else -1  # main + lam aux = main - 2 main
                torch.testing.assert_close(parameter.grad, factor * slope, rtol=1e-5, atol=1e-5)
            parameter.grad = None
        joined |= members


@eager_and_compiled
@every_history
@pytest.mark.parametrize("method", [gs.bloop(lam=0.7, rho=RHO), gs.bloop(lam=(0.7, 0.3), rho=RHO)], ids=["one", "two"])
def test_directions_are_those_of_the_reference_on_the_members(history, method, compiled):
    generator, aux_count = np.random.default_rng(0), method.aux_count
    parameters = [Parameter(torch.zeros(size, dtype=torch.float64)) for size in SIZES]
    surgery = gst.Surgery(parameters, method, compile=compiled)
    averages = [[np.zeros(size) for size in SIZES] for _ in range(method.averages)]
    masses = [0.0] * len(SIZES)
    for members in history:
        gradients = [[generator.normal(size=size) for size in SIZES] for _ in range(1 + aux_count)]
        losses = [sum(torch.from_numpy(loss[k]) @ parameters[k] for k in members) for loss in gradients]
        surgery.backward(*losses)
        surgery.apply()
        joined = lambda vectors, members=members: np.concatenate([vectors[k] for k in sorted(members)])  # noqa: E731
        reference = gs.Reference(method)
        reference.state = ReferenceState(1, tuple(map(joined, averages)), 1.0, ())  # corrected averages
        expected = reference(*map(joined, gradients))
        actual = torch.cat([parameters[k].grad for k in sorted(members)])
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-9)
        for k in members:
            keep, take, masses[k] = average_weights(RHO, masses[k])
            for level, loss in zip(averages, gradients, strict=False):
                level[k] = keep * level[k] + take * loss[k]
            parameters[k].grad = None
    state = surgery.state_dict()
    for level, expected in zip(state["averages"], averages, strict=True):
        for index, average in level.items():
            np.testing.assert_allclose(average, expected[index], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose([float(state["mass"][k]) for k in range(len(SIZES))], masses)


def test_a_frozen_parameter_leaves_and_an_added_one_joins():
    torch.manual_seed(0)
    slopes = [torch.randn(50) for _ in range(3)]
    first, second, third = parameters = [Parameter(torch.zeros(50)) for _ in range(3)]
    surgery = gst.Surgery([first, second], gs.bloop(lam=1.0, rho=0.01))
    seen = set()
    for step in range(12):
        if step == 4:
            second.requires_grad_(False)
        if step == 8:
            surgery.add_param_group({"params": [third]})
        members = [0, 1] if step < 4 else [0] if step < 8 else [0, 2]
        main = sum(slopes[k] @ parameters[k] for k in members)
        surgery.backward(main, -2 * main)
        surgery.apply()
        for k in members:
            if k in seen:
                torch.testing.assert_close(parameters[k].grad, slopes[k], rtol=1e-5, atol=1e-5)
            parameters[k].grad = None
        seen |= set(members)


def test_a_run_with_members_of_different_ages_resumes_bit_for_bit():
    torch.manual_seed(0)
    model = torch.nn.ModuleList([Linear(5, 5) for _ in range(3)])

    def train(model, surgery, steps):
        for step in steps:
            x = torch.randn(7, 5, generator=torch.Generator().manual_seed(step))
            hidden = x
            for index, layer in enumerate(model):
                if (step + index) % 3:
                    hidden = layer(hidden).tanh()
            surgery.backward(hidden.square().mean(), (hidden - 1).square().mean())
            surgery.apply()
            with torch.no_grad():
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter -= 0.1 * parameter.grad
                        parameter.grad = None

    surgery = gst.Surgery(model, gs.bloop(lam=0.5, rho=0.1))
    train(model, surgery, range(4))
    other = copy.deepcopy(model)
    resumed = gst.Surgery(other, gs.bloop(lam=0.5, rho=0.1))
    resumed.load_state_dict(surgery.state_dict())
    train(model, surgery, range(4, 8))
    train(other, resumed, range(4, 8))
    assert_equal_states(resumed.state_dict(), surgery.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert len({float(mass) for mass in surgery.state_dict()["mass"].values()}) > 1


def test_on_a_device_members_of_one_age_share_their_mass():
    """Reading a mass would wait for the device, so parameters are told apart by the tensor that holds it."""
    with torch.device("meta"):
        parameters = [Parameter(torch.zeros(4)) for _ in range(3)]
        surgery = gst.Surgery(parameters, gs.bloop(lam=0.5))
        for members in ([0, 1, 2], [0, 1], [0, 1, 2]):
            surgery.backward(sum(parameters[k].sum() for k in members), sum(parameters[k].sum() for k in members))
            surgery.apply()
        masses = surgery._parts[0].state._masses
        assert masses[0] is masses[1]
        assert masses[0] is not masses[2]
