"""What a step costs: memory, waits for the device, compilations. Counted, never timed."""

import subprocess
import sys
from itertools import accumulate

import pytest
import torch
from torch.nn import Parameter

import gradsurgery as gs
import gradsurgery.torch as gst
from gradsurgery.torch import blocks, passes
from gradsurgery.torch import scalars as number
from gradsurgery.torch import surgery as surgery_module
from gradsurgery.torch.blocks import PIECE
from gradsurgery.torch.passes import eager, native


class Allocations:
    """The bytes that the allocator hands out while it watches: what is left of them, and their peak."""

    def __enter__(self):
        self._profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
        self._profile.__enter__()
        return self

    def __exit__(self, *_):
        self._profile.__exit__(None, None, None)
        events = [event for event in self._profile.profiler.kineto_results.events() if event.name() == "[memory]"]
        sizes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
        self.live, self.peak = sum(sizes), max(accumulate(sizes), default=0)


SIZES = [3 * PIECE, 2 * PIECE, PIECE // 2, 10]


def losses(parameters, count):
    """Losses whose gradients are allocated in their own backward pass."""
    return [lambda k=k: sum((p * (k + 1.5)).square().sum() for p in parameters) for k in range(count)]


@pytest.mark.parametrize(("method", "gradients", "averages"), [
    (gs.bloop(lam=0.5), 2, 1),
    (gs.bloop(lam=(0.5, 0.1)), 3, 2),
    (gs.mixed(lam=0.5), 2, 0),
    (gs.pcgrad(lam=0.5), 2, 0),
], ids=["bloop", "bloop two levels", "mixed", "pcgrad"])  # fmt: skip
def test_apply_needs_no_memory_beyond_gradients_and_averages(method, gradients, averages):
    parameters = [Parameter(torch.ones(size)) for size in SIZES]
    whole = 4 * sum(SIZES)
    surgery = gst.Surgery(parameters, method)
    for step in range(2):
        for parameter in parameters:
            parameter.grad = None
        surgery.backward(*losses(parameters, gradients))
        with Allocations() as counted:
            surgery.apply()
        new = averages if step == 0 else 0  # the averages are made at the first step
        spare = 1 << 16  # scalars, and what is joined
        assert counted.peak <= new * whole + spare, (counted.peak / whole, step)


def test_a_whole_step_holds_one_gradient_for_each_loss():
    parameters = [Parameter(torch.ones(size)) for size in SIZES]
    whole = 4 * sum(SIZES)
    surgery = gst.Surgery(parameters, gs.bloop(lam=(0.5, 0.1)))
    with Allocations() as gathering:
        surgery.backward(*losses(parameters, 3))
    with Allocations() as applying:
        surgery.apply()
    assert gathering.live == pytest.approx(3 * whole, rel=0.01)
    assert gathering.live + applying.live == pytest.approx(3 * whole, rel=0.01)  # the direction and two averages


@pytest.mark.parametrize("method", [gs.bloop(lam=0.5), gs.bloop(lam=lambda step: 0.1 * step), gs.gradvac(), gs.mgda()])
@pytest.mark.parametrize("measure", [False, True])
def test_a_whole_step_never_waits_for_the_device(method, measure):
    """A tensor on the device meta has no value to wait for: whatever asks for one raises."""
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        surgery = gst.Surgery(model.parameters(), method, measure=measure)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            output = model(torch.randn(3, 4))
            surgery.backward(output.square().mean(), output.sin().mean())
            surgery.apply()
            optimiser.step()
            optimiser.zero_grad()
        assert surgery.diagnostics()


@pytest.fixture
def accelerator(monkeypatch):
    """Takes the CPU for an accelerator when called."""

    def taken():
        for module in (blocks, eager, number, passes, surgery_module):
            monkeypatch.setattr(module, "apart", lambda device: True)

    return taken


@pytest.mark.parametrize("method", [gs.bloop(lam=(0.5, 0.1), rho=0.1), gs.bloop(lam=0.5), gs.gradvac(), gs.mgda()])
def test_what_runs_on_an_accelerator_gives_the_same(method, accelerator):
    """There formulas run on tensors and nothing branches; here the CPU is taken for one. The third step is unsound."""
    found = []
    for there in (False, True):
        if there:
            accelerator()
        torch.manual_seed(0)
        parameters = [Parameter(torch.randn(300, 200)), Parameter(torch.randn(7))]
        surgery = gst.Surgery(parameters, method, measure=True)
        for step in range(5):
            noise = [[torch.randn_like(one) for one in parameters] for _ in range(1 + (method.aux_count or 1))]
            noise[0][0] *= torch.nan if step == 2 else 1
            losses = [sum((n * one).sum() for n, one in zip(some, parameters, strict=True)) for some in noise]
            surgery.backward(*losses)
            surgery.apply()
            found.append([*(one.grad.clone() for one in parameters), *surgery.diagnostics().values()])
            for one in parameters:
                one.grad = None
        found[-1] += [average for level in surgery.state_dict()["averages"] for average in level]
    for here, there in zip(found[:5], found[5:], strict=True):
        torch.testing.assert_close(here, there, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert all(one.isnan().all() for one in found[2][:2])
    assert all(one.isfinite().all() for one in found[4])


@pytest.mark.parametrize("there", [False, True], ids=["on a CPU", "on an accelerator"])
def test_compiled_passes_give_the_eager_result_and_compile_once(there, accelerator):
    """For any number of steps and shapes, while the schedule of lam moves."""
    if there:
        accelerator()
    method = gs.bloop(lam=lambda step: 0.1 * (1 + step), rho=0.1)
    shapes = [(700, 300), (64, 64, 3, 3), (7,), (1,), (), (100, 300), (0, 3)]  # enough for two threads
    torch.manual_seed(0)
    both = [[Parameter(torch.zeros(shape)) for shape in shapes] for _ in range(2)]
    surgeries = [
        gst.Surgery(parameters, method, compile=compiled)
        for parameters, compiled in zip(both, (False, True), strict=True)
    ]
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    native.compiled.cache_clear()
    compilations = []
    for _ in range(4):
        targets = [[torch.randn(shape) for shape in shapes] for _ in range(2)]
        for parameters, surgery in zip(both, surgeries, strict=True):
            surgery.backward(
                *(sum((p * t).sum() for p, t in zip(parameters, target, strict=True)) for target in targets)
            )
            surgery.apply()
        for eager_one, compiled_one in zip(*both, strict=True):
            torch.testing.assert_close(compiled_one.grad, eager_one.grad, rtol=1e-5, atol=1e-5)
        graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
        compilations.append((graphs, native.compiled.cache_info().misses))
    assert compilations == [(2, 0) if there else (0, 1)] * 4


@pytest.mark.parametrize(("compiler", "said"), [
    ("false", "false says"),
    ("true", "that of true does not load"),
])  # fmt: skip
def test_a_compiler_that_cannot_is_told(compiler, said, monkeypatch):
    monkeypatch.setenv("CXX", compiler)
    native.compiled.cache_clear()
    parameter = Parameter(torch.ones(3))
    surgery = gst.Surgery([parameter], gs.bloop(lam=0.5), compile=True)
    surgery.backward(parameter.sum(), parameter.square().sum())
    with pytest.raises(RuntimeError, match=said):
        surgery.apply()


def test_a_compiler_that_is_missing_is_told_before_the_first_step(monkeypatch, accelerator):
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    with pytest.raises(RuntimeError, match="there is no no-such-compiler: install one, or name it in CXX"):
        gst.Surgery([Parameter(torch.ones(3))], gs.bloop(lam=0.5), compile=True)
    accelerator()
    gst.Surgery([Parameter(torch.ones(3))], gs.bloop(lam=0.5), compile=True)


def test_on_a_cpu_the_compiler_of_pytorch_is_not_even_imported():
    """It takes seconds to."""
    program = """
import sys, torch, gradsurgery as gs, gradsurgery.torch as gst
parameter = torch.nn.Parameter(torch.ones(3))
surgery = gst.Surgery([parameter], gs.bloop(lam=0.5), compile=True)
surgery.backward(parameter.sum(), parameter.square().sum())
surgery.apply()
print("torch._dynamo" in sys.modules)
"""
    found = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
