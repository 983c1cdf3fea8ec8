"""The cost of a step: memory, waits for the device, compilations. Counted, never timed."""

import subprocess
import sys
from itertools import accumulate

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import Parameter

import gradsurgery as gs
import gradsurgery.torch as gst
from gradsurgery.torch import scalars
from gradsurgery.torch.passes import native
from gradsurgery.torch.passes.blocks import PIECE


class Allocations:
    """Bytes allocated inside the context: still allocated at its end, and at the peak."""

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
    """Losses whose gradients are allocated in their backward passes."""
    return [lambda k=k: sum((p * (k + 1.5)).square().sum() for p in parameters) for k in range(count)]


@pytest.mark.parametrize(("method", "gradients", "averages"), [
    (gs.bloop(lam=0.5), 2, 1),
    (gs.bloop(lam=(0.5, 0.1)), 3, 2),
    (gs.mixed(lam=0.5), 2, 0),
    (gs.pcgrad(lam=0.5), 2, 0),
], ids=["bloop", "bloop two levels", "mixed", "pcgrad"])  # fmt: skip
def test_apply_needs_no_memory_beyond_gradients_and_averages(method, gradients, averages):
    parameters = [Parameter(torch.ones(size)) for size in SIZES]
    total_bytes = 4 * sum(SIZES)
    surgery = gst.Surgery(parameters, method)
    for step in range(2):
        for parameter in parameters:
            parameter.grad = None
        surgery.backward(*losses(parameters, gradients))
        with Allocations() as counted:
            surgery.apply()
        new = averages if step == 0 else 0  # the first step allocates the averages
        spare = 1 << 16  # scalars and merged blocks
        assert counted.peak <= new * total_bytes + spare, (counted.peak / total_bytes, step)


def test_a_whole_step_holds_one_gradient_for_each_loss():
    parameters = [Parameter(torch.ones(size)) for size in SIZES]
    total_bytes = 4 * sum(SIZES)
    surgery = gst.Surgery(parameters, gs.bloop(lam=(0.5, 0.1)))
    with Allocations() as gathering:
        surgery.backward(*losses(parameters, 3))
    with Allocations() as applying:
        surgery.apply()
    assert gathering.live == pytest.approx(3 * total_bytes, rel=0.01)
    assert gathering.live + applying.live == pytest.approx(3 * total_bytes, rel=0.01)  # the direction and two averages


DEVICE_METHODS = {
    "bloop": gs.bloop(lam=0.5),
    "schedule": gs.bloop(lam=lambda step: 0.1 * step),
    "gradvac": gs.gradvac(),
    "mgda": gs.mgda(),
}


@pytest.mark.parametrize("method", DEVICE_METHODS.values(), ids=DEVICE_METHODS)
@pytest.mark.parametrize("measure", [False, True])
def test_a_whole_step_never_waits_for_the_device(method, measure):
    """Tensors on the meta device have no values: reading one raises."""
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


def test_parameters_may_be_on_several_devices():
    """Fake tensors refuse an operation on tensors of different devices."""
    with FakeTensorMode():
        parameters = [Parameter(torch.ones(3, device=device)) for device in ("cuda:0", "cuda:1", "cuda:2")]
        surgery = gst.Surgery(parameters, gs.bloop(lam=0.5, rho=None), measure=True)
        surgery._gatherer.gradients = [[torch.ones_like(p, requires_grad=False) for p in parameters] for _ in range(2)]
        surgery.apply()
        assert [p.grad.device for p in parameters] == [p.device for p in parameters]
        assert {value.device for value in surgery.diagnostics().values()} == {parameters[0].device}


@pytest.fixture
def accelerator(monkeypatch):
    """A function that makes the package treat the CPU as an accelerator."""
    return lambda: monkeypatch.setattr(scalars, "is_async", lambda device: True)


METHODS = [gs.bloop(lam=(0.5, 0.1), rho=0.1), gs.bloop(lam=torch.tensor(0.5)), gs.gradvac(), gs.mgda()]


@pytest.mark.parametrize("method", METHODS, ids=["two levels", "tensor", "gradvac", "mgda"])
def test_an_accelerator_gives_the_result_of_the_cpu(method, accelerator):
    """On an accelerator, formulas run on tensors and nothing branches. The third step is unsound."""
    results = []
    for on_accelerator in (False, True):
        if on_accelerator:
            accelerator()
        torch.manual_seed(0)
        parameters = [Parameter(torch.randn(300, 200)), Parameter(torch.randn(7))]
        surgery = gst.Surgery(parameters, method, measure=True)
        for step in range(5):
            gradients = [[torch.randn_like(p) for p in parameters] for _ in range(1 + (method.aux_count or 1))]
            gradients[0][0] *= torch.nan if step == 2 else 1
            surgery.backward(*(sum((g * p).sum() for g, p in zip(loss, parameters, strict=True)) for loss in gradients))
            surgery.apply()
            results.append([*(p.grad for p in parameters), *surgery.diagnostics().values()])
            for parameter in parameters:
                parameter.grad = None
        results[-1] += [average for level in surgery.state_dict()["averages"] for average in level.values()]
    for cpu, other in zip(results[:5], results[5:], strict=True):
        torch.testing.assert_close(cpu, other, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert all(direction.isnan().all() for direction in results[2][:2])
    assert all(result.isfinite().all() for result in results[4])


def test_a_scaler_on_an_accelerator_gives_the_result_of_the_cpu(accelerator):
    results = []
    for on_accelerator in (False, True):
        if on_accelerator:
            accelerator()
        parameter = Parameter(torch.ones(3))
        surgery = gst.Surgery([parameter], gs.bloop(lam=0.5))
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
        for _ in range(2):
            parameter.grad = None
            surgery.backward(scaler.scale((2 * parameter).sum()), scaler.scale(parameter[1:].square().sum()))
            surgery.apply(scaler=scaler)
        results.append([parameter.grad, surgery.state_dict()["averages"][0][0]])
    torch.testing.assert_close(results[0], results[1])


@pytest.fixture
def two_threads():
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.mark.usefixtures("two_threads")
def test_the_kernel_gives_the_eager_result_and_is_compiled_once():
    """In every step, whatever the shapes, while the schedule of lam changes."""
    method = gs.bloop(lam=lambda step: 0.1 * (1 + step), rho=0.1)
    shapes = [(700, 300), (64, 64, 3, 3), (7,), (1,), (), (100, 300), (0, 3)]  # enough elements for two threads
    torch.manual_seed(0)
    both = [[Parameter(torch.zeros(shape)) for shape in shapes] for _ in range(2)]
    surgeries = [
        gst.Surgery(parameters, method, compile=compiled)
        for parameters, compiled in zip(both, (False, True), strict=True)
    ]
    native.compile_kernel.cache_clear()
    for _ in range(4):
        targets = [[torch.randn(shape) for shape in shapes] for _ in range(2)]
        for parameters, surgery in zip(both, surgeries, strict=True):
            surgery.backward(
                *(sum((p * t).sum() for p, t in zip(parameters, target, strict=True)) for target in targets)
            )
            surgery.apply()
        for eager, compiled in zip(*both, strict=True):
            torch.testing.assert_close(compiled.grad, eager.grad, rtol=1e-5, atol=1e-5)
        assert native.compile_kernel.cache_info().misses == 1


@pytest.mark.parametrize(("compiler", "sentence"), [
    ("false", "failed to build its kernel; false says"),
    ("true", "failed to load the kernel that true built"),
])  # fmt: skip
def test_a_compiler_that_fails_is_named(compiler, sentence, monkeypatch):
    monkeypatch.setenv("CXX", compiler)
    native.compile_kernel.cache_clear()
    parameter = Parameter(torch.ones(3))
    surgery = gst.Surgery([parameter], gs.bloop(lam=0.5), compile=True)
    surgery.backward(parameter.sum(), parameter.square().sum())
    with pytest.raises(RuntimeError, match=sentence):
        surgery.apply()


@pytest.mark.parametrize(("compiler", "sentence"), [
    ("no-such-compiler -O2", "there is no no-such-compiler: install one, or name it in CXX"),
    ('g++ "', "the compiler in CXX, 'g\\+\\+ \"': No closing quotation"),
])  # fmt: skip
def test_a_missing_compiler_is_reported_at_construction(compiler, sentence, monkeypatch):
    monkeypatch.setenv("CXX", compiler)
    with pytest.raises(RuntimeError, match=sentence):
        gst.Surgery([Parameter(torch.ones(3))], gs.bloop(lam=0.5), compile=True)


@pytest.mark.slow
def test_a_compiled_step_does_not_import_torch_dynamo():
    """The import alone takes seconds."""
    program = """
import sys, torch, gradsurgery as gs, gradsurgery.torch as gst
parameter = torch.nn.Parameter(torch.ones(3))
surgery = gst.Surgery([parameter], gs.bloop(lam=0.5), compile=True)
surgery.backward(parameter.sum(), parameter.square().sum())
surgery.apply()
print("torch._dynamo" in sys.modules)
"""
    result = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
