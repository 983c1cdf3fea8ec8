"""``gradsurgery.torch`` agrees with ``Reference`` for 100 steps."""

import numpy as np
import pytest
import torch

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.methods.catalogue import every_method, everything


def make_parameters(dtype):
    """A matrix, a scalar, a transposed matrix and a channels-last filter: 6 + 1 + 6 + 48 elements."""
    image = torch.zeros(2, 6, 2, 2, dtype=dtype).to(memory_format=torch.channels_last)
    tensors = [torch.zeros(3, 2, dtype=dtype), torch.zeros((), dtype=dtype), torch.zeros(3, 2, dtype=dtype).T, image]
    return [torch.nn.Parameter(tensor) for tensor in tensors]


SIZE = sum(parameter.numel() for parameter in make_parameters(torch.float32))


def loss_with_gradient(parameters, vector):
    """A loss whose gradient is this vector."""
    ends = np.cumsum([parameter.numel() for parameter in parameters])[:-1]

    def loss():
        parts = zip(parameters, np.split(vector, ends), strict=True)
        return sum((p * torch.from_numpy(part).reshape(p.shape).to(p)).sum(dtype=p.dtype) for p, part in parts)

    return loss


def flat(tensors):
    return np.concatenate([tensor.detach().double().reshape(-1).cpu().numpy() for tensor in tensors])


def history(aux_count, dtype, steps=100):
    values = np.random.default_rng(0).normal(size=(steps, 1 + aux_count, SIZE)) + 0.3
    return torch.from_numpy(values).to(dtype).double().numpy()


def step(surgery, parameters, vectors):
    for parameter in parameters:
        parameter.grad = None
    surgery.backward(*(loss_with_gradient(parameters, vector) for vector in vectors))
    surgery.apply()


def run(method, gradients, dtype, **options):
    """The direction and averages of each step, and those of ``Reference``."""
    parameters = make_parameters(dtype)
    surgery, reference = gst.Surgery(parameters, method, **options), gs.Reference(method)
    for vectors in gradients:
        step(surgery, parameters, vectors)
        direction = reference(*vectors)
        averages = [list(level.values()) for level in surgery.state_dict()["averages"]]
        assert all(p.grad.dtype == dtype and p.grad.stride() == p.stride() for p in parameters)
        assert all(
            average.dtype == torch.promote_types(dtype, torch.float32) for level in averages for average in level
        )
        yield (
            flat([p.grad for p in parameters]),
            [flat(level) for level in averages],
            direction,
            reference.state.corrected,
        )


def relative_error(actual, expected):
    return np.linalg.norm(actual - expected) / np.linalg.norm(expected)


def assert_close(steps, tolerance, average_tolerance):
    for direction, averages, expected, expected_averages in steps:
        assert relative_error(direction, expected) < tolerance
        for average, expected_average in zip(averages, expected_averages, strict=True):
            assert relative_error(average, expected_average) < average_tolerance


@every_method
@pytest.mark.parametrize(
    ("dtype", "tolerance", "average_tolerance"),
    [
        (torch.float64, 1e-12, 1e-12),
        (torch.float32, 1e-5, 1e-5),
        (torch.bfloat16, 2**-8, 1e-5),  # the rounding of the direction to 8 bits, and no other error
        (torch.float16, 2**-11, 1e-5),
    ],
    ids=["f64", "f32", "bf16", "f16"],
)
def test_agree_for_100_steps(method, aux_count, dtype, tolerance, average_tolerance):
    assert_close(run(method, history(aux_count, dtype), dtype), tolerance, average_tolerance)


@pytest.mark.slow
@every_method
def test_the_kernel_agrees_for_100_steps(method, aux_count):
    gradients = history(aux_count, torch.float32)
    assert_close(run(method, gradients, torch.float32, compile=True), 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.bfloat16, 2**-8), (torch.float16, 2**-11)]
)
def test_the_kernel_agrees_for_every_type(dtype, tolerance):
    steps = run(gs.bloop(lam=(0.5, 0.1), rho=0.1), history(2, dtype), dtype, compile=True)
    assert_close(steps, tolerance, 1e-12 if dtype == torch.float64 else 1e-5)


@every_method
@pytest.mark.parametrize(("dtype", "scales"), [(torch.float64, (1e-12, 1e12)), (torch.float32, (1e-6, 1e6))])
def test_scaling_all_gradients_scales_the_direction(method, aux_count, dtype, scales):
    for scale in scales:
        gradients = scale * history(aux_count, dtype, steps=5)
        for direction, _, expected, _ in run(method, gradients, dtype):
            assert relative_error(direction, expected) < (1e-12 if dtype == torch.float64 else 1e-5)


@every_method
@pytest.mark.parametrize("factor", [0.0, 1.0, -1.0, -10.0])
def test_zero_collinear_and_opposed_gradients(method, aux_count, factor):
    line = history(1, torch.float32, steps=1)[0, 0]
    gradients = np.array([[line * factor**level for level in range(1 + aux_count)]] * 4, np.float32).astype(np.float64)
    for direction, _, expected, _ in run(method, gradients, torch.float32):
        # gradvac takes the root of a difference that is rounding error here
        np.testing.assert_allclose(direction, expected, rtol=0, atol=1e-3 * np.abs(gradients).max())


@every_method
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_an_unsound_step_gives_nan_and_leaves_the_state_alone(method, aux_count, bad, compiled):
    for place in range(1 + aux_count):
        parameters = make_parameters(torch.float32)
        surgery = gst.Surgery(parameters, method, compile=compiled)
        gradients = history(aux_count, torch.float32, steps=2)
        gradients[1, place, 20] = bad
        states = []
        for vectors in gradients:
            step(surgery, parameters, vectors)
            state = surgery.state_dict()
            averages = [flat(level.values()) for level in state["averages"]]
            states.append([*averages, np.array([*map(float, state["mass"].values()), *map(float, state["memory"])])])
        assert np.isnan(flat([p.grad for p in parameters])).all()
        assert not surgery.diagnostics()["sound"]
        assert state["steps"] == 2
        for before, after in zip(*states, strict=True):
            np.testing.assert_array_equal(before, after)


eager_and_compiled = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


@eager_and_compiled
def test_a_method_may_average_every_gradient(compiled):
    gradients = history(1, torch.float32, steps=10)
    assert_close(run(everything(), gradients, torch.float32, compile=compiled), 1e-5, 1e-5)


@pytest.mark.slow
@eager_and_compiled
@pytest.mark.parametrize("shift", [0, 1], ids=["between steps", "between losses"])
def test_types_and_memory_layouts_may_differ(shift, compiled):
    """The memory layout of the gradients changes every two steps, and in one case from loss to loss."""
    torch.manual_seed(0)
    method = gs.bloop(lam=0.5, rho=0.3)
    types = [torch.float32, torch.float64, torch.bfloat16]
    parameters = [torch.nn.Parameter(torch.zeros(4, 6, 3, 2, dtype=dtype)) for dtype in types]
    surgery, reference = gst.Surgery(parameters, method, compile=compiled), gs.Reference(method)
    for step in range(6):
        gradients = [[torch.randn(p.shape).to(p.dtype) for p in parameters] for _ in range(2)]
        surgery._gatherer.gradients = [
            [
                gradient.to(memory_format=torch.channels_last) if (step // 2 + shift * index) % 2 else gradient.clone()
                for gradient in loss
            ]
            for index, loss in enumerate(gradients)
        ]
        expected = reference(*(flat(loss) for loss in gradients))
        for parameter in parameters:
            parameter.grad = None
        surgery.apply()
        assert relative_error(flat([p.grad for p in parameters]), expected) < 2**-8  # bfloat16
        assert relative_error(flat(surgery.state_dict()["averages"][0].values()), reference.state.corrected[0]) < 1e-6


@pytest.mark.skipif(not hasattr(torch.Tensor, "grad_dtype"), reason="needs Tensor.grad_dtype")
@eager_and_compiled
def test_gradients_of_one_parameter_may_differ_in_type(compiled):
    parameter = torch.nn.Parameter(torch.zeros(64))
    parameter.grad_dtype = None
    surgery = gst.Surgery([parameter], gs.mixed(lam=0.5), compile=compiled)
    surgery._gatherer.gradients = [[torch.full((64,), 3.001)], [torch.full((64,), 2.0, dtype=torch.bfloat16)]]
    surgery.apply()
    torch.testing.assert_close(parameter.grad, torch.full((64,), 4.001))
