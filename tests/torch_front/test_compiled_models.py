"""``torch.compile``d models: functions always work; tensors of one forward pass work, or one sentence says how."""

import os
import warnings
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch
import torch._functorch.config
import torch._inductor.config
from torch import nn

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.torch_front.workers import fork_server

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of the compilers
X = torch.randn(16, 5, generator=torch.Generator().manual_seed(0))


def make_model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 32), nn.GELU(), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 3))


def losses(model, form):
    main, aux = (lambda output: output.square().mean()), (lambda output: (output - 1).abs().mean())
    if form == "functions":
        return (lambda: main(model(X))), (lambda: aux(model(X)))
    output = model(X)
    return main(output), aux(output)


def direction(form, backend=None, plain_backward=False):
    torch._dynamo.reset()
    torch._inductor.config.compile_threads = 1  # more would be processes, which import PyTorch first
    model = make_model()
    compiled = model if backend is None else torch.compile(model, backend=backend)
    if plain_backward:
        sum(losses(compiled, "tensors")).backward()
        model.zero_grad()
    surgery = gst.Surgery(compiled, gs.bloop(lam=0.5, rho=None))
    surgery.backward(*losses(compiled, form))
    surgery.apply()
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
@pytest.mark.parametrize("plain_backward", [False, True], ids=["at once", "after a plain backward"])
@pytest.mark.parametrize("donated", [True, False], ids=["default", "without donated buffers"])
@pytest.mark.parametrize("form", ["functions", "tensors"])
def test_a_compiled_model_gives_the_direction_or_says_what_to_write(form, donated, plain_backward, backend):
    advice = ""
    with torch._functorch.config.patch(donated_buffer=donated):
        try:
            actual = direction(form, backend, plain_backward)
        except RuntimeError as error:
            advice = str(error)
    if advice:
        assert form == "tensors"
        assert donated
        assert "set torch._functorch.config.donated_buffer = False before torch.compile" in advice
        assert "\n" not in advice
    else:
        torch.testing.assert_close(actual, direction(form), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("compiled_model", [False, True])
def test_a_compiled_training_step_trains_as_a_plain_one(compiled_model):
    """Shapes, the schedule and the parameters that take part change from step to step."""

    def trained(compile):  # noqa: A002
        torch._dynamo.reset()
        model = make_model()
        called = torch.compile(model, backend="aot_eager") if compile and compiled_model else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        surgery = gst.Surgery(model, gs.bloop(lam=lambda step: 0.1 * step, rho=0.1), measure=True)

        def step(x):
            surgery.backward(lambda: called(x).square().mean(), lambda: called(x).sin().mean())
            surgery.apply()
            optimizer.step()
            optimizer.zero_grad()

        step = torch.compile(step, backend="aot_eager") if compile else step
        for number in range(8):
            model[0].bias.requires_grad_(number % 4 < 2)
            step(X[number:])
        return list(model.parameters())

    torch.testing.assert_close(trained(compile=True), trained(compile=False), rtol=1e-4, atol=1e-6)


def outcome(folder, donated, plain_backward):
    """The number of gradients, or the advice, as a process says that keeps compiled code in this folder."""
    warnings.simplefilter("ignore")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)
    torch._functorch.config.donated_buffer = donated
    try:
        return len(direction("tensors", "inductor", plain_backward))
    except RuntimeError as error:
        return str(error)


def test_a_warm_disk_cache_changes_nothing(tmp_path):
    with ProcessPoolExecutor(
        1, mp_context=fork_server("torch._inductor.compile_fx"), max_tasks_per_child=1
    ) as processes:
        cold, warm, *kept = (
            processes.submit(outcome, tmp_path, *arguments).result()
            for arguments in ((True, True), (True, False), (False, False), (False, False))
        )
    assert "donated_buffer = False" in cold
    assert kept == [6, 6]
    assert warm == 6 or "donated_buffer = False" in warm
