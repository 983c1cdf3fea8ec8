"""``Surgery.attach``: the surgery's state travels in the optimiser's."""

import copy
import warnings

import pytest
import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.nn import Linear, Parameter

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.torch_front.test_state import assert_equal_parameters, assert_equal_states, make_run, train


class OneStepLBFGS(torch.optim.LBFGS):
    """It keeps one state for all parameters, under the first."""

    def step(self, closure=lambda: torch.zeros(())):
        return super().step(closure)


def momentum_for_some(first, *others):
    return [{"params": [first], "momentum": 0.9}, {"params": others}]


OPTIMISERS = {
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1),
    "momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "Adam": lambda params: torch.optim.Adam(params, lr=0.01),
    "AdamW amsgrad": lambda params: torch.optim.AdamW(params, lr=0.01, amsgrad=True),
    "Adafactor": lambda params: torch.optim.Adafactor(params, lr=0.01),
    "LBFGS": lambda params: OneStepLBFGS(params, lr=0.1, max_iter=1),
    "momentum for some": lambda params: torch.optim.SGD(momentum_for_some(*params), lr=0.1),
}
METHODS = {
    "bloop": gs.bloop(lam=lambda step: 0.1 * step, rho=0.3),
    "gradvac": gs.gradvac(),
    "mixed": gs.mixed(lam=lambda step: 0.1 * step),
}


def make_attached(method, make=OPTIMISERS["Adam"]):
    model, _, surgery = make_run(method)
    optimiser = make(model.parameters())
    surgery.attach(optimiser)
    return model, optimiser, surgery


@pytest.mark.parametrize("make", OPTIMISERS.values(), ids=OPTIMISERS)
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_a_run_resumes_bit_for_bit_from_the_optimisers_state(method, make, tmp_path):
    straight = make_attached(method, make)
    train(straight, 4)
    torch.save([straight[0].state_dict(), straight[1].state_dict()], tmp_path / "run.pt")
    train(straight, 4, start=4)
    resumed = make_attached(method, make)
    for part, state in zip(resumed, torch.load(tmp_path / "run.pt", weights_only=True), strict=False):
        part.load_state_dict(state)
    train(resumed, 4, start=4)
    assert_equal_parameters(resumed, straight)
    assert_equal_states(resumed[2].state_dict(), straight[2].state_dict())


def test_saving_and_loading_leave_the_optimisers_own_state_alone():
    run, plain = make_attached(gs.bloop(lam=0.5)), make_run(gs.bloop(lam=0.5))
    for other in (run, plain):
        train(other, 2)
    saved = run[1].state_dict()
    for key, entry in plain[1].state_dict()["state"].items():
        assert set(run[1].state[list(run[0].parameters())[key]]) == set(entry)
    before = copy.deepcopy(saved)
    run[1].load_state_dict(saved)
    torch.testing.assert_close(saved["state"], before["state"], rtol=0, atol=0)
    for parameter in run[0].parameters():
        assert not any(name.startswith("surgery") for name in run[1].state[parameter])


def test_a_plain_optimiser_loads_the_state_of_an_attached_one_and_trains():
    run, plain = make_attached(gs.bloop(lam=0.5)), make_run(gs.bloop(lam=0.5))
    train(run, 2)
    plain[1].load_state_dict(run[1].state_dict())
    train(plain, 1)


def test_a_state_without_the_surgerys_part_warns_and_leaves_the_surgery_alone():
    plain, run = make_run(gs.bloop(lam=0.5)), make_attached(gs.bloop(lam=0.5))
    train(plain, 3)
    train(run, 1)
    before = run[2].state_dict()
    with pytest.warns(UserWarning, match="saved without attach: the averages of the surgery stay") as caught:
        run[1].load_state_dict(plain[1].state_dict())
    assert [warning.filename for warning in caught] == [__file__]
    assert_equal_states(run[2].state_dict(), before)


def test_a_state_of_another_method_is_refused():
    run, other = make_attached(gs.bloop(lam=0.5)), make_attached(gs.pcgrad(lam=0.5, rho=0.1))
    train(run, 1)
    with pytest.raises(ValueError, match="must be one of the method pcgrad; got one of bloop"):
        other[1].load_state_dict(run[1].state_dict())
    two_levels = make_attached(gs.bloop(lam=(0.5, 0.1)))
    with pytest.raises(ValueError, match=r"averages must be a list of length 2 for .*; got a list of 1"):
        two_levels[1].load_state_dict(run[1].state_dict())


def test_if_the_state_of_one_group_is_refused_no_group_is_loaded():
    def make(second_method, steps):
        first, second = Parameter(torch.ones(2)), Parameter(torch.ones(2))
        groups = [{"params": first, "method": gs.bloop(lam=0.5)}, {"params": second, "method": second_method}]
        surgery, optimiser = gst.Surgery(groups, gs.mixed(lam=1.0)), torch.optim.Adam([first, second])
        surgery.attach(optimiser)
        for _ in range(steps):
            surgery.backward((first * second).sum(), first.sum() + second.sum())
            surgery.apply()
        return surgery, optimiser

    _, saved = make(gs.pcgrad(lam=0.5, rho=0.1), steps=2)
    surgery, optimiser = make(gs.dynamic_barrier(lam=0.5, rho=0.1), steps=1)
    with pytest.raises(ValueError, match="must be one of the method dynamic_barrier; got one of pcgrad"):
        optimiser.load_state_dict(saved.state_dict())
    assert [state["steps"] for state in surgery.state_dict()["groups"]] == [1, 1]


def test_two_surgeries_may_be_attached_to_one_optimiser():
    def make(steps):
        weights = [Parameter(torch.ones(2)) for _ in range(2)]
        surgeries = [gst.Surgery([weight], gs.bloop(lam=0.5)) for weight in weights]
        optimiser = torch.optim.Adam(weights)
        for surgery in surgeries:
            surgery.attach(optimiser)
        for weight, surgery, count in zip(weights, surgeries, steps, strict=True):
            for _ in range(count):
                surgery.backward(weight.sum(), weight.square().sum())
                surgery.apply()
        optimiser.step()
        return surgeries, optimiser

    (surgeries, optimiser), (others, other) = make(steps=(1, 2)), make(steps=(0, 0))
    other.load_state_dict(optimiser.state_dict())
    for actual, expected in zip(others, surgeries, strict=True):
        assert_equal_states(actual.state_dict(), expected.state_dict())
    assert set(other.state_dict()["state"][0]) == set(optimiser.state_dict()["state"][0])


def test_a_state_that_the_optimiser_refuses_leaves_the_surgery_alone():
    """Two groups of one and three parameters load a state of three and one."""

    def make(first_group, steps):
        model, _, surgery = make_run(gs.bloop(lam=0.5))
        parameters = list(model.parameters())
        groups = [{"params": parameters[:first_group]}, {"params": parameters[first_group:]}]
        optimiser = torch.optim.Adam(groups)
        surgery.attach(optimiser)
        train((model, optimiser, surgery), steps)
        return surgery, optimiser

    _, saved = make(first_group=3, steps=2)
    surgery, optimiser = make(first_group=1, steps=1)
    with pytest.raises(ValueError, match="doesn't match the size"):
        optimiser.load_state_dict(saved.state_dict())
    assert surgery.state_dict()["steps"] == 1


def test_loading_drops_gathered_gradients():
    weight = Parameter(torch.ones(2))
    surgery, optimiser = gst.Surgery([weight], gs.mixed(lam=0.5)), torch.optim.SGD([weight])
    surgery.attach(optimiser)
    saved = optimiser.state_dict()
    surgery.backward(weight.sum(), weight.sum())
    optimiser.load_state_dict(saved)
    surgery.backward(weight.sum(), weight.sum())
    surgery.apply()
    assert weight.grad.tolist() == [1.5, 1.5]


def test_gathered_gradients_are_not_saved_and_a_warning_says_so():
    model, optimiser, surgery = make_attached(gs.bloop(lam=0.5))
    output = model(torch.ones(3, 4))
    surgery.backward(output.square().mean(), output.sin().mean())
    with pytest.warns(UserWarning, match="does not contain the gradients") as caught:
        optimiser.state_dict()
    assert caught[0].filename == __file__


def test_two_optimisers_each_carry_their_share():
    def make():
        model, _, surgery = make_run(gs.bloop(lam=0.5, rho=0.3))
        first, second = torch.optim.Adam(model[0].parameters(), lr=0.01), torch.optim.SGD(model[2].parameters(), lr=0.1)
        surgery.attach(first, second)
        surgery.attach(first)
        return model, first, second, surgery

    run, other = make(), make()
    output = run[0](torch.ones(3, 4))
    run[3].backward(output.square().mean(), output.sin().mean())
    run[3].apply()
    for ours, theirs in zip(other[1:3], run[1:3], strict=True):
        ours.load_state_dict(theirs.state_dict())
    assert_equal_states(other[3].state_dict(), run[3].state_dict())


def test_a_group_added_to_the_optimiser_later_is_saved_too():
    model = torch.nn.Sequential(Linear(4, 4), Linear(4, 2))
    model[0].requires_grad_(False)
    surgery, optimiser = gst.Surgery(model.parameters(), gs.bloop(lam=0.5)), torch.optim.Adam(model[1].parameters())
    surgery.attach(optimiser)
    model[0].requires_grad_(True)
    optimiser.add_param_group({"params": model[0].parameters()})
    train((model, optimiser, surgery), 1)
    assert all("surgery.bloop.average0" in entry for entry in optimiser.state_dict()["state"].values())


def test_distributed_checkpoints_carry_the_state_by_the_names_of_the_parameters():
    run, other = make_attached(gs.bloop(lam=0.5)), make_attached(gs.bloop(lam=0.5))
    train(run, 2)
    saved = get_optimizer_state_dict(run[0], run[1])
    assert "surgery.bloop.average0" in saved["state"]["0.weight"]
    set_optimizer_state_dict(other[0], other[1], saved)
    assert_equal_states(other[2].state_dict(), run[2].state_dict())


def test_a_distributed_checkpoint_has_every_average_where_an_optimiser_keeps_state_for_some_parameters():
    """It loads into the entries that a new run has."""
    run, other = (make_attached(gs.bloop(lam=0.5), OPTIMISERS["momentum for some"]) for _ in range(2))
    train(run, 2)
    saved, template = (get_optimizer_state_dict(*made[:2]) for made in (run, other))
    assert template["state"].keys() == saved["state"].keys() == {name for name, _ in run[0].named_parameters()}
    set_optimizer_state_dict(other[0], other[1], saved)
    assert_equal_states(other[2].state_dict(), run[2].state_dict())


def test_a_group_without_averages_is_saved_where_the_optimiser_keeps_no_state_for_it():
    def make():
        model, _, _ = make_run(gs.bloop(lam=0.5))
        optimiser = torch.optim.SGD(momentum_for_some(*model.parameters()), lr=0.1)
        first, *others = model.parameters()
        groups = [{"params": [first], "method": gs.gradvac()}, {"params": others}]
        surgery = gst.Surgery(groups, gs.mixed(lam=lambda step: 0.1 * step))
        surgery.attach(optimiser)
        return model, optimiser, surgery

    run, resumed = make(), make()
    train(run, 3)
    resumed[1].load_state_dict(run[1].state_dict())
    assert [state["steps"] for state in resumed[2].state_dict()["groups"]] == [3, 3]


def test_two_surgeries_are_saved_by_one_optimiser_without_state():
    def make():
        model, _, _ = make_run(gs.bloop(lam=0.5))
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        surgeries = [gst.Surgery(model[index], gs.bloop(lam=0.5, rho=0.3)) for index in (0, 2)]
        for surgery in surgeries:
            surgery.attach(optimiser)
        return model, optimiser, surgeries

    model, optimiser, surgeries = make()
    for surgery in surgeries:
        output = model(torch.ones(3, 4))
        surgery.backward(output.sum(), output.square().sum())
        surgery.apply()
    _, resumed, others = make()
    resumed.load_state_dict(optimiser.state_dict())
    for surgery, other in zip(surgeries, others, strict=True):
        assert_equal_states(other.state_dict(), surgery.state_dict())


def test_the_optimisers_of_accelerate_are_unwrapped():
    accelerate = pytest.importorskip("accelerate")
    model, optimiser, surgery = make_run(gs.bloop(lam=0.5))
    wrapped = accelerate.Accelerator(cpu=True).prepare(optimiser)
    surgery.attach(wrapped)
    train((model, wrapped, surgery), 1)
    assert "surgery.bloop.average0" in wrapped.state_dict()["state"][0]


def test_a_scaler_steps_an_attached_optimiser():
    model, optimiser, surgery = make_attached(gs.bloop(lam=0.5))
    scaler = torch.amp.GradScaler("cpu")
    before = copy.deepcopy(model)
    output = model(torch.ones(3, 4))
    surgery.backward(scaler.scale(output.square().mean()), scaler.scale(output.sin().mean()))
    surgery.apply(scaler=scaler)
    scaler.step(optimiser)
    assert not torch.equal(model[0].weight, before[0].weight)


def test_bad_arguments_get_one_sentence():
    model, _, surgery = make_run(gs.bloop(lam=0.5))
    with pytest.raises(TypeError, match=r"attach needs an optimiser of torch.optim; got 3"):
        surgery.attach(3)
    with pytest.raises(ValueError, match="all trainable parameters; 4 of 4 are in none of them"):
        surgery.attach(torch.optim.SGD([Parameter(torch.ones(1))]))
    with pytest.raises(ValueError, match="2 of 4"):
        surgery.attach(torch.optim.SGD(model[0].parameters()))


def test_an_attached_run_warns_about_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = make_attached(gs.bloop(lam=0.5))
        train(run, 1)
        run[1].load_state_dict(run[1].state_dict())


def test_a_new_surgery_takes_the_place_of_an_attached_one():
    model, optimiser, old = make_attached(gs.bloop(lam=0.5))
    train((model, optimiser, old), 1)
    new = gst.Surgery(model.parameters(), gs.pcgrad(lam=0.5, rho=0.1))
    new.attach(optimiser)
    train((model, optimiser, new), 2)
    saved = optimiser.state_dict()
    resumed = make_attached(gs.pcgrad(lam=0.5, rho=0.1))
    resumed[1].load_state_dict(saved)
    assert_equal_states(resumed[2].state_dict(), new.state_dict())
    optimiser.load_state_dict(saved)  # the old surgery does not see it


def test_a_copy_of_an_attached_run_can_be_attached():
    run = make_attached(gs.bloop(lam=0.5))
    train(run, 2)
    _, optimiser, surgery = copied = copy.deepcopy(run)
    surgery.attach(optimiser)
    train(copied, 1, start=2)
    resumed = make_attached(gs.bloop(lam=0.5))
    resumed[1].load_state_dict(optimiser.state_dict())
    assert_equal_states(resumed[2].state_dict(), surgery.state_dict())


# --- checkpoints that were loaded before the surgery was attached, and optimisers without hooks


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_attaching_after_loading_finds_the_state_in_the_optimiser(method):
    straight = make_attached(method)
    train(straight, 4)
    saved = copy.deepcopy([straight[0].state_dict(), straight[1].state_dict()])
    train(straight, 4, start=4)
    model, optimiser, surgery = make_run(method)
    model.load_state_dict(saved[0])
    optimiser.load_state_dict(saved[1])
    surgery.attach(optimiser)
    assert not any(name.startswith("surgery") for entry in optimiser.state.values() for name in entry)
    train((model, optimiser, surgery), 4, start=4)
    assert_equal_parameters((model,), straight)
    assert_equal_states(surgery.state_dict(), straight[2].state_dict())


def test_attaching_after_loading_is_refused_where_the_optimiser_has_rounded_the_averages():
    model, optimiser, surgery = make_run(gs.bloop(lam=0.5), torch.bfloat16)
    surgery.attach(optimiser)
    train((model, optimiser, surgery), 2)
    other = make_run(gs.bloop(lam=0.5), torch.bfloat16)
    other[1].load_state_dict(optimiser.state_dict())
    with pytest.raises(
        ValueError, match=r"must come before optimizer\.load_state_dict for parameters in torch\.bfloat16"
    ):
        other[2].attach(other[1])


def test_a_parameter_that_the_optimiser_has_not_stepped_does_not_break_a_plain_optimiser():
    used, unused = Parameter(torch.ones(2)), Parameter(torch.ones(2))
    optimiser = torch.optim.Adam([used, unused])
    surgery = gst.Surgery([used, unused], gs.bloop(lam=0.5))
    surgery.attach(optimiser)
    surgery.backward(used.sum(), used.square().sum())
    surgery.apply()
    optimiser.step()
    plain = torch.optim.Adam([used, unused])
    plain.load_state_dict(optimiser.state_dict())
    unused.grad = torch.ones(2)
    plain.step()


def test_a_copy_of_model_optimiser_and_surgery_is_attached():
    run = make_attached(gs.bloop(lam=0.5))
    train(run, 2)
    model, optimiser, surgery = copy.deepcopy(run)
    train(run, 2, start=2)
    train((model, optimiser, surgery), 2, start=2)
    assert_equal_states(surgery.state_dict(), run[2].state_dict())
    torch.testing.assert_close(optimiser.state_dict()["state"], run[1].state_dict()["state"], rtol=0, atol=0)
    surgery.backward(model(torch.ones(3, 4)).sum(), model(torch.ones(3, 4)).square().sum())
    with pytest.raises(RuntimeError, match=r"call surgery\.apply\(\) before optimizer\.step"):
        optimiser.step()


class WithoutHooks(torch.optim.SGD):
    def state_dict(self):
        return {"state": {}, "param_groups": []}


class Wrapper(torch.optim.Optimizer):
    """As the schedule-free wrapper and several Lookaheads: it has not called ``Optimizer.__init__``."""

    def __init__(self, inner):
        self.inner, self.param_groups, self.state = inner, inner.param_groups, inner.state

    def state_dict(self):
        return self.inner.state_dict()


def test_a_wrapper_is_refused_and_the_optimiser_inside_it_is_attached():
    run = _, optimiser, surgery = make_run(gs.bloop(lam=0.5))
    with pytest.raises(TypeError, match=r"state_dict\(\) runs hooks; got Wrapper: save and load surgery.state_dict"):
        surgery.attach(Wrapper(optimiser))
    surgery.attach(optimiser)
    train(run, 1)
    assert "surgery.bloop.average0" in Wrapper(optimiser).state_dict()["state"][0]


class LoadsWithoutHooks(torch.optim.Adam):
    """As some libraries with quantised states."""

    def load_state_dict(self, state_dict):
        plain = torch.optim.Adam(self.param_groups[0]["params"])
        plain.load_state_dict(state_dict)
        self.__setstate__({"state": plain.state, "param_groups": self.param_groups})


def test_an_optimiser_that_saves_without_hooks_is_refused():
    model, _, surgery = make_run(gs.bloop(lam=0.5))
    with pytest.raises(
        TypeError, match=r"state_dict\(\) runs hooks; got WithoutHooks: save and load surgery.state_dict"
    ):
        surgery.attach(WithoutHooks(model.parameters(), lr=0.1))


def test_an_optimiser_that_loads_without_hooks_is_served():
    run = make_attached(gs.bloop(lam=0.5), lambda params: LoadsWithoutHooks(list(params), lr=0.01))
    train(run, 3)
    saved = copy.deepcopy([run[0].state_dict(), run[1].state_dict()])
    train(run, 2, start=3)
    resumed = make_attached(gs.bloop(lam=0.5), lambda params: LoadsWithoutHooks(list(params), lr=0.01))
    for part, state in zip(resumed, saved, strict=False):
        part.load_state_dict(state)
    train(resumed, 2, start=3)
    assert_equal_parameters(resumed, run)
    assert_equal_states(resumed[2].state_dict(), run[2].state_dict())


def test_loading_one_of_two_attached_optimisers_warns_before_the_next_step():
    first, second = Parameter(torch.ones(2)), Parameter(torch.ones(2))
    optimisers = [torch.optim.Adam([first]), torch.optim.Adam([second])]
    surgery = gst.Surgery([first, second], gs.bloop(lam=0.5))
    surgery.attach(*optimisers)

    def step():
        surgery.backward((first * second).sum(), first.sum() + second.sum())
        surgery.apply()
        for optimiser in optimisers:
            optimiser.step()

    step()
    states = [copy.deepcopy(optimiser.state_dict()) for optimiser in optimisers]
    for optimiser, state in zip(optimisers, states, strict=True):
        optimiser.load_state_dict(state)
    step()
    optimisers[0].load_state_dict(states[0])
    with pytest.warns(UserWarning, match="attached to 2 optimisers, and a state was loaded into 1"):
        step()
    step()


def test_a_state_with_the_parameters_in_another_order_is_refused():
    """Though a hook that runs later may sort them: Adam's state would be right, and the surgery's not."""
    a, b = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))

    def attached(named):
        surgery, optimizer = gst.Surgery([a, b], gs.bloop(lam=0.1)), torch.optim.Adam(named)
        surgery.attach(optimizer)
        return surgery, optimizer

    surgery, optimizer = attached([("a", a), ("b", b)])
    surgery.backward(a.sum() + 5 * b.sum(), a.sum() + b.sum())
    surgery.apply()
    optimizer.step()
    with pytest.raises(ValueError, match="another order of the same names"):
        attached([("b", b), ("a", a)])[1].load_state_dict(optimizer.state_dict())
    attached([("a", a), ("b", b)])[1].load_state_dict(optimizer.state_dict())


def test_attach_after_loading_is_refused_for_parameters_of_several_types():
    """The optimiser stores the mass of a float64 parameter in the type of the parameter."""
    a, b = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    surgery, optimizer = gst.Surgery([a, b], gs.bloop(lam=0.1)), torch.optim.Adam([a, b])
    surgery.attach(optimizer)
    surgery.backward(a.sum() + b.sum(), a.sum() - b.sum())
    surgery.apply()
    optimizer.step()
    other = torch.optim.Adam([a, b])
    other.load_state_dict(optimizer.state_dict())
    with pytest.raises(ValueError, match=r"for parameters in torch\.float32 and torch\.float64"):
        gst.Surgery([a, b], gs.bloop(lam=0.1)).attach(other)
