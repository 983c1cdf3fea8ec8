"""Means of diagnostics over a window, and what ``explain`` says about them."""

import copy
import math

import pytest
import torch
from torch.nn import Parameter

import gradsurgery as gs
import gradsurgery.torch as gst
from gradsurgery.torch import scalars
from gradsurgery.torch.diagnostics import Means

MAIN = [1.0, 0.0]
AGAINST, ALONG, ACROSS = [-3.0, 4.0], [3.0, 4.0], [0.0, 5.0]


def run(surgery, weight, *aux_gradients, main=MAIN):
    for aux in aux_gradients:
        weight.grad = None
        surgery.backward((weight * torch.tensor(main)).sum(), (weight * torch.tensor(aux)).sum())
        surgery.apply()


def make(method=None, **options):
    weight = Parameter(torch.zeros(2))
    return gst.Surgery([weight], method or gs.bloop(lam=0.5, rho=0.5), **options), weight


def read_diagnostics(surgery):
    return {name: value.item() for name, value in surgery.diagnostics().items()}


@pytest.mark.parametrize("on_accelerator", [False, True], ids=["cpu", "accelerator"])
def test_means_are_over_the_steps_since_the_last_reset(on_accelerator, monkeypatch):
    if on_accelerator:
        monkeypatch.setattr(scalars, "is_async", lambda device: True)
    surgery, weight = make(measure=True)
    run(surgery, weight, ACROSS)  # fills the average
    surgery.reset_means()
    run(surgery, weight, AGAINST, ALONG, AGAINST, ACROSS)
    means = read_diagnostics(surgery)
    assert read_diagnostics(surgery) == means  # a pure read
    expected = {"mean_conflict": 0.5, "mean_cos_main_aux": -0.15, "mean_removed": 0.45, "mean_sound": 1.0}
    assert {name: means[name] for name in expected} == pytest.approx(expected, abs=1e-6)
    assert means["conflict"] == 0
    surgery.reset_means()
    run(surgery, weight, AGAINST)
    assert read_diagnostics(surgery)["mean_conflict"] == 1
    surgery.reset_means()
    assert not any(name.startswith("mean") for name in surgery.diagnostics())


@pytest.mark.parametrize("on_accelerator", [False, True], ids=["cpu", "accelerator"])
def test_means_keep_their_digits_in_long_runs(on_accelerator, monkeypatch):
    if on_accelerator:
        monkeypatch.setattr(scalars, "is_async", lambda device: True)
    factory = scalars.Scalars()
    means, value, sound = Means(factory), factory.formula_scalar(0.3), factory.formula_scalar(1.0) > 0
    means.add({"cos": value * 2**24}, sound)  # as much as 2**24 steps
    means.reset()
    for _ in range(100):
        means.add({"cos": value}, sound)
    assert float(means.window()["cos"]) == pytest.approx(0.3, rel=1e-6)
    assert float(means.since_start()["cos"]) == pytest.approx(0.3 * (2**24 + 100) / 101, rel=1e-6)


def test_the_conflict_rate_needs_no_measure():
    surgery, weight = make()
    run(surgery, weight, ACROSS, AGAINST, ALONG, AGAINST)
    assert read_diagnostics(surgery)["mean_conflict"] == 0.5
    assert "mean_removed" not in surgery.diagnostics()


@pytest.mark.parametrize("on_accelerator", [False, True], ids=["cpu", "accelerator"])
def test_unsound_steps_are_not_counted(on_accelerator, monkeypatch):
    if on_accelerator:
        monkeypatch.setattr(scalars, "is_async", lambda device: True)
    surgery, weight = make(measure=True)
    run(surgery, weight, ALONG, AGAINST)
    run(surgery, weight, AGAINST, AGAINST, main=[torch.inf, 0.0])
    means = read_diagnostics(surgery)
    assert (means["sound"], means["mean_sound"], means["mean_conflict"]) == (0, 0.5, 0.5)
    assert means["mean_cos_main_aux"] == pytest.approx(0, abs=1e-6)
    surgery.reset_means()
    run(surgery, weight, AGAINST, main=[torch.inf, 0.0])
    assert math.isnan(read_diagnostics(surgery)["mean_conflict"])  # there was no sound step


def test_each_auxiliary_loss_has_its_own_conflict_rate():
    surgery, weight = make(gs.bloop(lam=(0.5, 0.5), rho=0.5))
    for _ in range(3):
        surgery.backward(*((weight * torch.tensor(gradient)).sum() for gradient in (MAIN, AGAINST, ALONG)))
        surgery.apply()
    means = read_diagnostics(surgery)
    assert means["mean_conflict"] == pytest.approx(2 / 3)  # the first step has no average
    assert means["mean_conflict2"] == 0


@pytest.mark.parametrize(
    ("method", "steps", "measure", "sentences"),
    [
        (None, [ACROSS] + 3 * [AGAINST], True, ("In 4 steps, aux pointed against main in 75 % (mean cosine -0.45), and "
         "45 % of aux was removed. Too few steps for advice.")),
        (None, [ACROSS] * 10, True, ("against main in 0 %", "With so little conflict, gs.mixed would do as well.")),
        (None, [ACROSS] + 9 * [[-5.0, 0.1]], True, ("90 % of aux was removed", "takes away much of aux")),
        (None, [ACROSS] + 9 * [AGAINST], False, ("In 10 steps, aux pointed against main in 90 %.", "something to do")),
        (gs.mixed(lam=0.5), [AGAINST] * 10, False, ("10 steps so far.", "with measure=True")),
        (gs.mixed(lam=0.5), [AGAINST] * 10, True, ("main in 100 %", "even where it harms main: gs.bloop would not.")),
        (None, [AGAINST, [torch.nan, 0.0]], True, ("50 % were not finite and left the averages", "look for overflow")),
        (None, [[torch.nan, 0.0]], True, ("No step was finite (1 so far)", "look for overflow")),
        (None, [], True, ("There has been no step yet.",)),
    ],
)  # fmt: skip
def test_explain_says_what_happened_and_what_to_do(method, steps, measure, sentences):
    surgery, weight = make(method, measure=measure)
    for step in steps:
        run(surgery, weight, step)
        surgery.reset_means()  # not those of explain
    text = gst.explain(surgery)
    for sentence in sentences:
        assert sentence in text
    assert "\n" not in text


def test_a_loss_that_joins_some_steps_has_means_over_those_steps():
    weight = Parameter(torch.ones(2))
    surgery = gst.Surgery([weight], gs.cosine())
    for step in range(4):
        surgery.backward(weight[0], weight[1], *[-weight[0]] * (step % 2))
        surgery.apply()
    means = surgery.diagnostics()
    assert (means["mean_conflict"], means["mean_conflict2"]) == (0.0, 1.0)


def test_explain_has_a_line_for_each_group():
    first, second = Parameter(torch.ones(2)), Parameter(torch.ones(2))
    surgery = gst.Surgery([{"params": first, "method": gs.bloop(lam=0.5)}, second], gs.mixed(lam=1.0))
    surgery.backward(first.sum() + second.sum(), first.sum() + second.sum())
    surgery.apply()
    lines = gst.explain(surgery).splitlines()
    assert [line.split(":")[0] for line in lines] == ["Group 0, bloop(lam=0.5, rho=0.01)", "Group 1, mixed(lam=1.0)"]


def test_a_non_finite_step_is_skipped_without_a_scaler():
    """As the README shows."""
    surgery, weight = make()
    optimiser = torch.optim.Adam([weight], lr=0.1)
    before = []
    for main in (MAIN, [torch.nan, 0.0], MAIN):
        run(surgery, weight, ACROSS, main=main)
        before.append((weight.detach().clone(), copy.deepcopy(optimiser.state_dict())))
        if surgery.diagnostics()["sound"]:
            optimiser.step()
        optimiser.zero_grad()
    assert torch.equal(before[1][0], before[2][0])
    torch.testing.assert_close(before[1][1]["state"], before[2][1]["state"])
    assert weight.isfinite().all()
    assert not torch.equal(weight, before[2][0])
