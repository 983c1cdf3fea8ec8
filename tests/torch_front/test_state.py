"""``state_dict`` is a snapshot, a saved run resumes bit for bit, and a state that does not fit is refused."""

import copy
import math

import pytest
import torch
from torch.nn import Linear, ModuleDict, Parameter, Sequential, Tanh

import gradsurgery as gs
import gradsurgery.torch as gst


def make_run(method, dtype=torch.float32):
    torch.manual_seed(0)
    model = Sequential(Linear(4, 8), Tanh(), Linear(8, 2)).to(dtype)
    return model, torch.optim.Adam(model.parameters(), lr=0.01), gst.Surgery(model.parameters(), method)


def train(run, steps, start=0):
    model, optimiser, surgery = run
    for step in range(start, start + steps):
        inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(step)).to(model[0].weight.dtype)
        output = model(inputs)
        surgery.backward(output.square().mean(), output.sin().mean())
        surgery.apply()
        optimiser.step()
        optimiser.zero_grad()


def assert_equal_parameters(run, other):
    for actual, expected in zip(run[0].parameters(), other[0].parameters(), strict=True):
        assert torch.equal(actual, expected)


def assert_equal_states(actual, expected):
    actual, expected = ({**state, "method": None, "names": None} for state in (actual, expected))
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_a_snapshot_of_a_methods_memory_loses_no_digits():
    run = make_run(gs.gradvac())
    train(run, 3)
    surgery = run[2]
    (part,) = surgery._parts
    assert [value.item() for value in surgery.state_dict()["memory"]] == [float(value) for value in part.state.memory]


METHODS = [gs.bloop(lam=lambda step: 0.1 * step, rho=0.3), gs.gradvac(), gs.dynamic_barrier(lam=0.5, rho=0.1)]


@pytest.mark.parametrize("method", METHODS, ids=["bloop", "gradvac", "dynamic_barrier"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_saved_run_resumes_bit_for_bit(method, dtype, tmp_path):
    straight = make_run(method, dtype)
    train(straight, 4)
    torch.save([part.state_dict() for part in straight], tmp_path / "run.pt")
    train(straight, 4, start=4)
    resumed = make_run(method, dtype)
    for part, state in zip(resumed, torch.load(tmp_path / "run.pt", weights_only=True), strict=True):
        part.load_state_dict(state)
    train(resumed, 4, start=4)
    assert_equal_parameters(resumed, straight)


def test_with_a_tensor_for_rho_a_run_resumes_bit_for_bit():
    method = gs.dynamic_barrier(lam=50.0, rho=torch.tensor(0.1, dtype=torch.float64))
    straight, resumed = make_run(method), make_run(method)
    train(straight, 3)
    for part, other in zip(resumed, straight, strict=True):
        part.load_state_dict(copy.deepcopy(other.state_dict()))
    train(straight, 3, start=3)
    train(resumed, 3, start=3)
    assert_equal_parameters(resumed, straight)


def test_a_state_is_a_snapshot():
    run, twin = make_run(gs.bloop(lam=0.5)), make_run(gs.bloop(lam=0.5))
    train(twin, 4)
    train(run, 2)
    saved = [copy.deepcopy(run[0].state_dict()), copy.deepcopy(run[1].state_dict()), run[2].state_dict()]
    train(run, 5, start=10)
    for part, state in zip(run, saved, strict=True):
        part.load_state_dict(state)
    train(run, 2, start=2)
    assert_equal_parameters(run, twin)


def test_a_loaded_state_is_a_copy():
    run, other = make_run(gs.bloop(lam=0.5)), make_run(gs.bloop(lam=0.5))
    train(run, 1)
    state = run[2].state_dict()
    other[2].load_state_dict(state)
    before = copy.deepcopy(state)
    train(other, 1)
    assert_equal_states(state, before)


def test_a_run_may_switch_between_eager_and_compiled():
    runs = [make_run(gs.bloop(lam=0.5, rho=0.3)) for _ in range(2)]
    for step in range(4):
        if step:
            model, optimiser, before = runs[0]
            runs[0] = (model, optimiser, gst.Surgery(model.parameters(), before.method, compile=step % 2 == 1))
            runs[0][2].load_state_dict(before.state_dict())
        for run in runs:
            train(run, 1, start=step)
    for actual, expected in zip(runs[0][0].parameters(), runs[1][0].parameters(), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_other_hyperparameters_may_be_used_after_loading():
    run = make_run(gs.bloop(lam=0.5))
    train(run, 2)
    other = make_run(gs.bloop(lam=0.1, rho=0.2))[2]
    other.load_state_dict(run[2].state_dict())
    assert other.state_dict()["steps"] == 2


def test_gathered_gradients_are_not_saved_and_a_warning_says_so():
    weight = Parameter(torch.ones(2))
    surgery = gst.Surgery([weight], gs.bloop(lam=0.5))
    surgery.backward(weight.sum(), weight.sum())
    with pytest.warns(UserWarning, match=r"not contain the gradients that were gathered but not applied.*after apply"):
        surgery.state_dict()


# --- frozen parameters


def make_adapter(unfreeze=False):
    """A frozen base and a small trainable layer."""
    torch.manual_seed(0)
    model = Sequential(Linear(4, 4), Linear(4, 2))
    model[0].requires_grad_(unfreeze)
    return model, torch.optim.Adam(model.parameters(), lr=0.01), gst.Surgery(model.parameters(), gs.bloop(lam=0.5))


def averages(run):
    return run[2].state_dict()["averages"][0]


def test_frozen_parameters_are_not_in_the_state():
    run = make_adapter()
    assert list(averages(run)) == [2, 3]
    train(run, 2)
    assert list(averages(run)) == [2, 3]
    other = make_adapter()
    other[2].load_state_dict(run[2].state_dict())
    assert list(averages(other)) == [2, 3]
    assert list(other[2]._parts[0].state._averages[0]) == [2, 3]


def test_loading_allocates_nothing_for_frozen_parameters(monkeypatch):
    run = make_adapter()
    train(run, 1)
    state, shapes = run[2].state_dict(), []
    zeros_like = torch.zeros_like
    monkeypatch.setattr(
        torch, "zeros_like", lambda *args, **kw: shapes.append(args[0].shape) or zeros_like(*args, **kw)
    )
    run[2].load_state_dict(state)
    run[2].state_dict()
    assert shapes == []


def test_a_parameter_may_be_unfrozen_and_frozen_during_training():
    run = make_adapter()
    train(run, 2)
    run[0][0].requires_grad_(True)
    assert list(averages(run)) == [0, 1, 2, 3]
    assert not averages(run)[0].any()
    train(run, 2)
    assert averages(run)[0].any()
    before = averages(run)[0]
    run[0][0].requires_grad_(False)
    train(run, 1)
    assert list(averages(run)) == [0, 1, 2, 3]
    assert torch.equal(averages(run)[0], before)  # it rests


@pytest.mark.parametrize("later", [False, True], ids=["unfrozen before loading", "unfrozen after loading"])
def test_a_state_saved_with_frozen_parameters_loads_into_an_unfrozen_model(later):
    run, other = make_adapter(), make_adapter(unfreeze=not later)
    train(run, 2)
    for part, state in zip(other, (part.state_dict() for part in run), strict=True):
        part.load_state_dict(copy.deepcopy(state))
    for model in (run[0], other[0]):
        model.requires_grad_(True)
    train(run, 2, start=2)
    train(other, 2, start=2)
    assert_equal_parameters(other, run)


# --- states that do not fit


def changed(**values):
    return lambda state: {**state, **values}


def without(key):
    return lambda state: {name: value for name, value in state.items() if name != key}


def with_average(value):
    return lambda state: {**state, "averages": [{**state["averages"][0], 0: value}]}


def with_mass(value):
    return lambda state: {**state, "mass": {**state["mass"], 0: value}}


OPTIMISER = torch.optim.SGD([Parameter(torch.ones(1))])
BAD_STATES = {
    "a missing key": (without("mass"), "must have the keys method, names, .*; got method, names, shapes, steps, mem"),
    "an unknown key": (changed(lam=0.5), "must have the keys .*; got .*averages, lam"),
    "an optimiser's": (lambda _: OPTIMISER.state_dict(), "; got state, param_groups"),
    "not a dictionary": (lambda _: [1], r"must have the keys .*; got \[1\]"),
    "another method": (changed(method="pcgrad"), "must be one of the method bloop; got one of pcgrad"),
    "negative steps": (changed(steps=-5), "steps must be an integer of at least 0; got -5"),
    "fractional steps": (changed(steps=0.5), "steps must be an integer of at least 0; got 0.5"),
    "NaN mass": (with_mass(torch.tensor(math.nan)), "mass must hold finite numbers; got nan"),
    "mass above 1": (with_mass(torch.tensor(1.5)), "mass must be a number from 0 to 1; got 1.5"),
    "mass of two": (with_mass(torch.ones(2)), r"mass must hold numbers; got a tensor of shape \(2,\)"),
    "mass as a word": (with_mass("one"), "mass must hold numbers; got 'one'"),
    "too much memory": (changed(memory=[torch.tensor(1.0)]), "memory must be a list of length 0 .*; got a list of 1"),
    "no averages": (changed(averages=[]), "averages must be a list of length 1 for .*; got a list of 0"),
    "averages in a list": (changed(averages=[[1, 2]]), "position of the parameter; got a list of 2"),
    "fewer parameters": (changed(shapes=[[8, 4], [8]]), "must be for 4 parameters; got one for 2"),
    "another shape": (changed(shapes=[[8, 4], [8], [3, 8], [2]]), r"2 must have shape \(2, 8\) .*; got \(3, 8\)"),
    "average of another shape": (with_average(torch.ones(3, 4)), r"0 must have shape \(8, 4\); got \(3, 4\)"),
    "complex average": (with_average(torch.ones(8, 4) * 1j), "real numbers; got torch.complex64 for parameter 0"),
    "average that is a number": (with_average(1.0), "a tensor of real numbers; got 1.0 for parameter 0"),
    "average of no parameter": (
        lambda state: {**state, "averages": [{**state["averages"][0], 9: torch.ones(1)}]},
        "positions in averages must be below 4, the number of parameters; got 9",
    ),
    "one mass for all": (changed(mass=torch.tensor(0.5)), "mass must be keyed by the position of the parameter"),
    "average without a mass": (changed(mass={}), "each average must have a mass"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "sentence"), BAD_STATES.values(), ids=BAD_STATES)
def test_a_bad_state_gets_one_sentence_and_changes_nothing(change, sentence):
    run = make_run(gs.bloop(lam=0.5))
    train(run, 2)
    before = run[2].state_dict()
    good = make_run(gs.bloop(lam=0.5))
    train(good, 1)
    with pytest.raises(ValueError, match=sentence) as raised:
        run[2].load_state_dict(change(good[2].state_dict()))
    assert "\n" not in str(raised.value)
    assert_equal_states(run[2].state_dict(), before)


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (gs.pcgrad(lam=0.5, rho=0.1), "must be one of the method pcgrad; got one of bloop"),
        (gs.bloop(lam=0.5, rho=None), r"a list of length 0 for bloop\(lam=0.5, rho=None\); got a list of 1"),
        (gs.bloop(lam=(0.5, 0.1)), "averages must be a list of length 2 for .*; got a list of 1"),
    ],
)
def test_a_state_of_another_method_is_refused(other, sentence):
    run = make_run(gs.bloop(lam=0.5))
    train(run, 1)
    with pytest.raises(ValueError, match=sentence):
        gst.Surgery(run[0].parameters(), other).load_state_dict(run[2].state_dict())


# --- memory layouts and types


def test_a_state_of_a_model_with_another_order_of_parameters_is_refused():
    """Their shapes are equal, so that averages would go to the wrong parameters without a word."""
    first, second = Linear(3, 3), Linear(3, 3)
    saved = gst.Surgery(ModuleDict({"first": first, "second": second}), gs.bloop(lam=0.5)).state_dict()
    with pytest.raises(ValueError, match=r"in another order: first.weight, first.bias, second.weight, second.bias$"):
        gst.Surgery(ModuleDict({"second": second, "first": first}), gs.bloop(lam=0.5)).load_state_dict(saved)
    gst.Surgery(ModuleDict({"main": first, "aux": second}), gs.bloop(lam=0.5)).load_state_dict(saved)  # renamed


def test_an_average_saved_in_another_memory_layout_is_converted():
    gradients = torch.randn(3, 2, 2, 3, 3)
    results = []
    for layout in (torch.contiguous_format, torch.channels_last):
        saved = Parameter(torch.zeros(2, 2, 3, 3).to(memory_format=layout))
        before = gst.Surgery([saved], gs.bloop(lam=0.5, rho=0.5))
        before.backward((saved * gradients[0]).sum(), (saved * gradients[1]).sum())
        before.apply()
        weight = Parameter(torch.zeros(2, 2, 3, 3))
        surgery = gst.Surgery([weight], gs.bloop(lam=0.5, rho=0.5))
        surgery.load_state_dict(before.state_dict())
        surgery.backward((weight * gradients[2]).sum(), (weight * gradients[1]).sum())
        surgery.apply()
        results.append(surgery.state_dict()["averages"][0][0])
    torch.testing.assert_close(results[0], results[1])
    torch.testing.assert_close(results[0], (0.25 * gradients[0] + 0.5 * gradients[2]) / 0.75)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_parameter_may_change_its_type_but_not_its_shape(compiled):
    parameter = Parameter(torch.randn(10, 4))
    surgery = gst.Surgery([parameter], gs.bloop(lam=0.5), compile=compiled)

    def step():
        parameter.grad = None
        surgery.backward((2 * parameter).sum(), parameter.square().sum())
        surgery.apply()

    step()
    parameter.data = parameter.data.double()
    step()
    assert surgery.state_dict()["averages"][0][0].dtype == torch.float64
    assert parameter.grad.isfinite().all()
    parameter.data = torch.randn(20, 4, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"shape of its average, \(10, 4\); got \(20, 4\)"):
        step()


def test_a_resumed_run_is_equal_bit_for_bit_where_parameters_rest_after_it():
    """Parameters whose masses are equal share blocks, whether they were loaded or not."""

    def trained(resumed):
        torch.manual_seed(0)
        model = torch.nn.ParameterList([torch.randn(3001), torch.randn(3001)])
        surgery = gst.Surgery(model, gs.bloop(lam=0.3, rho=0.1))
        optimizer, x = torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(7, 2, 3001)
        for step, used in enumerate([(0, 1), (0,), (1,), (0, 1), (0, 1), (0, 1), (0, 1)]):
            if resumed and step == 2:
                surgery.load_state_dict(surgery.state_dict())
            hidden = sum((model[k] * x[step, k]).sum() for k in used)
            aux = sum((model[k] * x[step, k].roll(1)).sin().sum() for k in used)
            surgery.backward(hidden.square() / 3001, aux)
            surgery.apply()
            optimizer.step()
            optimizer.zero_grad()
        return torch.cat(list(model))

    assert torch.equal(trained(resumed=True), trained(resumed=False))
