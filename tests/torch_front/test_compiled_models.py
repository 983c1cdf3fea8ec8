"""``torch.compile``d models: functions always work; tensors of one forward pass work, or one sentence says how."""

import subprocess
import sys

import pytest
import torch
import torch._functorch.config
from torch import nn

import gradsurgery as gs
import gradsurgery.torch as gst

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


PROGRAM = """
import sys, torch._functorch.config
from tests.torch_front.test_compiled_models import direction
torch._functorch.config.donated_buffer = sys.argv[1] == "donated"
try:
    print(len(direction("tensors", "inductor", plain_backward=sys.argv[2] == "plain")))
except RuntimeError as error:
    print(error)
"""


def test_a_warm_disk_cache_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    outputs = []
    for arguments in (("donated", "plain"), ("donated", "surgery"), ("kept", "surgery"), ("kept", "surgery")):
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments]
        outputs.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert "donated_buffer = False" in outputs[0]
    assert outputs[2:] == ["6\n", "6\n"]
    assert outputs[1] == "6\n" or "donated_buffer = False" in outputs[1]
