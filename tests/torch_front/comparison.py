"""What one process computes, and how the outcomes of several are compared with it."""

from functools import cache, partial

import torch

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.torch_front.workers import OF_OUTPUT, batch, network, train

TWO_AUX = ("fit", "quartic", "wave")
ADVICE = "surgery.backward(main_fn, aux_fn)"


def one_process(case):
    """The outcome of one process with all the data, for which the form of the losses makes no difference."""
    return _one_process(**{name: case[name] for name in ("losses", "heads", "optimizer", "trunk_only") if name in case})


_one_process = cache(partial(train, 0, 1))


def assert_same_numbers(actual, expected):
    assert actual.error is None
    assert actual.steps == expected.steps
    torch.testing.assert_close(actual.parameters, expected.parameters, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(actual.averages, expected.averages, rtol=1e-9, atol=1e-12)


def assert_matches_or_is_refused(outcomes, case, advice=ADVICE):
    """Equal to one process, or an error before the first step that would differ."""
    for outcome in outcomes:
        if outcome.error is None:
            assert_same_numbers(outcome, one_process(case))
        else:
            assert outcome.error.startswith("RuntimeError: ")
            assert advice in outcome.error
            assert outcome.steps <= case.get("start", 0)


def expected_gradients():
    """The direction and the gradient of the plain loss, by one process with all the data."""
    model = network()
    surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.5, rho=0.1))
    x, y = batch(0, 0, 1)
    fit, quartic, wave = (OF_OUTPUT[name](model(x)[0], y) for name in ("fit", "quartic", "wave"))
    surgery.backward(fit, quartic)
    surgery.apply()
    wave.backward()
    return [parameter.grad for parameter in model.parameters()]
