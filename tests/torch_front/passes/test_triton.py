"""The Triton kernels agree with ``Reference``, in Triton's interpreter, and compile for GPUs that are not here."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.nn import Parameter

import gradsurgery as gs
import gradsurgery.torch as gst
from gradsurgery.plan import basis, plan, required_products
from gradsurgery.torch import scalars
from gradsurgery.torch.passes import Block, check_compile, make_passes
from tests.device import DEVICE
from tests.methods.catalogue import ALL, every_method

pytest.importorskip("triton")

SIZE = 61


@pytest.fixture
def on_device(monkeypatch):
    """The CPU stands in for a device: every scalar is a tensor."""
    monkeypatch.setattr(scalars, "is_async", lambda tensor: True)


def kernel(method, aux_count):
    """The vectors of a step, and the inner products among them: methods with the same share their kernels."""
    names, pairs = basis(method, aux_count), required_products(method, aux_count)
    return names, tuple((names.index(a), names.index(b)) for a, b in pairs)


def directions(method, gradients, compiled):
    """The direction and the averages of each step."""
    names, pairs = kernel(method, gradients.shape[1] - 1)
    averages = [torch.zeros(SIZE) for _ in range(method.averages)]
    mass, memory = torch.tensor(0.0), tuple(torch.tensor(0.0) for _ in method.memory)
    for step, vectors in enumerate(gradients):
        block = Block([torch.from_numpy(vector).float().to(DEVICE) for vector in vectors], averages)
        passes = make_passes([block], pairs, compile=compiled)
        products = {(names[a], names[b]): product for (a, b), product in zip(pairs, passes.products(), strict=True)}
        dot = lambda a, b, products=products: products[a, b]  # noqa: E731
        planned = plan(method.resolve(step), names, dot, mass=mass, memory=memory)
        take = torch.where(planned.sound, planned.take, torch.tensor(0.0))
        passes.combine([planned.weights.get(name, 0.0) for name in names], [(planned.keep, take)], step, scaled=False)
        if planned.sound:
            mass, memory = planned.mass, planned.memory
        yield block.gradients[-1].double().cpu().numpy(), [average.double().cpu().numpy() for average in averages]


def history(aux_count, steps=100):
    values = np.random.default_rng(0).normal(size=(steps, 1 + aux_count, SIZE)) + 0.3
    return values.astype(np.float32).astype(np.float64)


def relative_error(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


def assert_agree_for_100_steps(method, aux_count, compiled):
    reference, gradients = gs.Reference(method), history(aux_count)
    for vectors, (direction, averages) in zip(gradients, directions(method, gradients, compiled), strict=True):
        assert relative_error(direction, reference(*vectors)) < 1e-5
        for average, expected in zip(averages, reference.state.corrected, strict=True):
            assert relative_error(average, expected) < 1e-5


KERNELS = {kernel(*example): label for label, example in reversed(ALL.items())}


@pytest.mark.slow
@pytest.mark.parametrize("label", KERNELS.values())
def test_every_kernel_agrees_for_100_steps(label, on_device):
    assert_agree_for_100_steps(*ALL[label], compiled=True)


@every_method
def test_every_formula_agrees_for_100_steps_on_a_device(method, aux_count, on_device):
    assert_agree_for_100_steps(method, aux_count, compiled=False)


@pytest.mark.filterwarnings(
    "ignore:invalid value:RuntimeWarning", "ignore:overflow:RuntimeWarning"
)  # the interpreter's
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_an_unsound_step_gives_nan_and_does_not_spoil_the_next(bad, on_device):
    """The square of 1e30 overflows."""
    method, gradients = gs.bloop(lam=(0.5, 0.1), rho=0.1), history(2, steps=3)
    gradients[1, 1, 20] = bad
    results = list(directions(method, gradients, compiled=True))
    assert np.isnan(results[1][0]).all()
    reference = gs.Reference(method)
    reference(*gradients[0])
    assert relative_error(results[2][0], reference(*gradients[2])) < 1e-5


def test_compiled_steps_on_a_device_train_as_eager_ones(on_device):
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Linear(5, 3)
        surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.5, rho=0.3), compile=compiled)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            output = model(torch.randn(7, 5))
            surgery.backward(output.square().mean(), output.sin().mean())
            surgery.apply()
            optimizer.step()
            optimizer.zero_grad()
        results.append([parameter.detach() for parameter in model.parameters()])
    torch.testing.assert_close(*results)


def test_compile_says_what_is_missing(monkeypatch):
    with pytest.raises(ValueError, match="needs parameters on a CPU or on a CUDA or ROCm device; got one on meta"):
        gst.Surgery([Parameter(torch.ones(3, device="meta"))], gs.bloop(lam=0.5), compile=True)
    monkeypatch.setattr("gradsurgery.torch.passes.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="compile=True needs Triton on a GPU; got none: pip install triton"):
        check_compile(torch.device("cuda"))


PROGRAM = """
import json, re, triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from gradsurgery.torch.passes import triton_kernels
from gradsurgery.torch.passes.triton import OPTIONS, TILE

GRADIENTS, PAIRS = 2, ((2, 2), (1, 2), (0, 0))                  # bloop
KERNELS = {
    "products": ({"partial": "*fp32"}, {"pairs": PAIRS}),
    "combine": ({"coefficients": "*fp32", "step": "i64"}, {"gradients": GRADIENTS}),
}
TARGETS = {
    "sm_80": (GPUTarget("cuda", 80, 32), "cubin"),
    "sm_90": (GPUTarget("cuda", 90, 32), "cubin"),
    "gfx942": (GPUTarget("hip", "gfx942", 64), "hsaco"),
}
counts = []
for types in ((tl.float32,) * 3, (tl.bfloat16,) * 3):
    for kernel, (arguments, constants) in KERNELS.items():
        constants = {**constants, "types": types, "wide": tl.float32, "length": TILE}
        signature = {"table": "*i64", "tiles": "*i32", **arguments, **dict.fromkeys(constants, "constexpr")}
        for name, (target, binary) in TARGETS.items():
            source = ASTSource(getattr(triton_kernels, kernel), signature, constants)
            asm = triton.compile(source, target=target, options=OPTIONS).asm
            accesses = [len(re.findall(rf"tt.{access} .*tensor<{TILE}x", asm["ttir"])) for access in ("load", "store")]
            counts.append([kernel, name, len(asm[binary]) > 0, *accesses, "ld.global.v4" in asm.get("ptx", "")])
print(json.dumps(counts))
"""


@pytest.mark.slow
def test_the_kernels_compile_for_gpus_and_load_each_word_once(tmp_path):
    """The code is there twice: for aligned blocks, with loads of 16 bytes, and for others. A tile runs one of them."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    counts = json.loads(result.stdout)
    assert len(counts) == 12
    for kernel, target, is_built, loads, stores, wide in counts:
        assert is_built
        assert (loads / 2, stores / 2) == {"products": (3, 0), "combine": (3, 2)}[kernel], (kernel, target)
        assert wide or target == "gfx942"
