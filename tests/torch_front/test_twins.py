"""``gradsurgery.torch`` and ``Reference``, side by side for 100 steps."""

import numpy as np
import pytest
import torch

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.methods.catalogue import ALL, everything

every_method = pytest.mark.parametrize(("method", "aux_count"), ALL.values(), ids=ALL)


def some_parameters(dtype):
    """A matrix, a scalar, a transposed matrix and an image filter whose channels lie last: 6 + 1 + 6 + 48 elements."""
    image = torch.zeros(2, 6, 2, 2, dtype=dtype).to(memory_format=torch.channels_last)
    tensors = [torch.zeros(3, 2, dtype=dtype), torch.zeros((), dtype=dtype), torch.zeros(3, 2, dtype=dtype).T, image]
    return [torch.nn.Parameter(tensor) for tensor in tensors]


SIZE = sum(parameter.numel() for parameter in some_parameters(torch.float32))


def loss_with_gradient(parameters, vector):
    """A function whose gradient is this vector, parameter by parameter in the order of their elements."""
    ends = np.cumsum([parameter.numel() for parameter in parameters])[:-1]

    def loss():
        parts = zip(parameters, np.split(vector, ends), strict=True)
        return sum((p * torch.from_numpy(part).reshape(p.shape).to(p.dtype)).sum(dtype=p.dtype) for p, part in parts)

    return loss


def flat(tensors):
    return np.concatenate([tensor.detach().double().reshape(-1).numpy() for tensor in tensors])


def history(aux_count, dtype, steps=100):
    values = np.random.default_rng(0).normal(size=(steps, 1 + aux_count, SIZE)) + 0.3
    return torch.from_numpy(values).to(dtype).double().numpy()


def run(method, gradients, dtype, **options):
    """Each step's direction and averages, and what ``Reference`` gives for them."""
    parameters = some_parameters(dtype)
    surgery, reference = gst.Surgery(parameters, method, **options), gs.Reference(method)
    for now in gradients:
        surgery.backward(*(loss_with_gradient(parameters, vector) for vector in now))
        surgery.apply()
        direction = reference(*now)
        averages = surgery.state_dict()["averages"]
        assert all(p.grad.dtype == dtype and p.grad.stride() == p.stride() for p in parameters)
        assert all(one.dtype == torch.promote_types(dtype, torch.float32) for level in averages for one in level)
        yield (
            flat([p.grad for p in parameters]),
            [flat(level) for level in averages],
            direction,
            reference.state.corrected,
        )


def off(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


def assert_alike(steps, tolerance, average_tolerance):
    for direction, averages, expected, expected_averages in steps:
        assert off(direction, expected) < tolerance
        for average, expected_average in zip(averages, expected_averages, strict=True):
            assert off(average, expected_average) < average_tolerance


@every_method
@pytest.mark.parametrize(
    ("dtype", "tolerance", "average_tolerance"),
    [
        (torch.float64, 1e-12, 1e-12),
        (torch.float32, 1e-5, 1e-5),
        (torch.bfloat16, 2**-8, 1e-5),  # the last rounding, to 8 bits, and nothing more
        (torch.float16, 2**-11, 1e-5),
    ],
    ids=["f64", "f32", "bf16", "f16"],
)
def test_agree_for_100_steps(method, aux_count, dtype, tolerance, average_tolerance):
    assert_alike(run(method, history(aux_count, dtype), dtype), tolerance, average_tolerance)


@every_method
def test_kernels_agree_for_100_steps(method, aux_count):
    gradients = history(aux_count, torch.float32)
    assert_alike(run(method, gradients, torch.float32, compile=True), 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.bfloat16, 2**-8), (torch.float16, 2**-11)]
)
def test_kernels_agree_for_every_type(dtype, tolerance):
    steps = run(gs.bloop(lam=(0.5, 0.1), rho=0.1), history(2, dtype), dtype, compile=True)
    assert_alike(steps, tolerance, 1e-12 if dtype == torch.float64 else 1e-5)


@every_method
@pytest.mark.parametrize(("dtype", "scales"), [(torch.float64, (1e-12, 1e12)), (torch.float32, (1e-6, 1e6))])
def test_scaling_all_gradients_scales_the_direction(method, aux_count, dtype, scales):
    for scale in scales:
        gradients = scale * history(aux_count, dtype, steps=5)
        for direction, _, expected, _ in run(method, gradients, dtype):
            assert off(direction, expected) < (1e-12 if dtype == torch.float64 else 1e-5)


@every_method
@pytest.mark.parametrize("factor", [0.0, 1.0, -1.0, -100.0])
def test_zero_collinear_and_opposed_gradients(method, aux_count, factor):
    line = history(1, torch.float32, steps=1)[0, 0]
    gradients = np.array([[line * factor**level for level in range(1 + aux_count)]] * 4, np.float32).astype(np.float64)
    for direction, _, expected, _ in run(method, gradients, torch.float32):
        np.testing.assert_allclose(direction, expected, rtol=1e-4, atol=2e-3 * np.abs(gradients).max())


@every_method
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_an_unsound_step_moves_nothing_and_shows_in_the_direction(method, aux_count, bad, compiled):
    for place in range(1 + aux_count):
        parameters = some_parameters(torch.float32)
        surgery = gst.Surgery(parameters, method, compile=compiled)
        gradients = history(aux_count, torch.float32, steps=2)
        gradients[1, place, 20] = bad
        states = []
        for now in gradients:
            surgery.backward(*(loss_with_gradient(parameters, vector) for vector in now))
            surgery.apply()
            state = surgery.state_dict()
            states.append([flat(level) for level in (*state["averages"], [state["mass"], *state["memory"]])])
        assert not np.isfinite(flat([p.grad for p in parameters])).all()
        assert state["steps"] == 2
        for before, after in zip(*states, strict=True):
            np.testing.assert_array_equal(before, after)


eager_and_compiled = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])


@eager_and_compiled
def test_a_method_may_want_the_average_of_every_gradient(compiled):
    gradients = history(1, torch.float32, steps=10)
    assert_alike(run(everything(), gradients, torch.float32, compile=compiled), 1e-5, 1e-5)


@eager_and_compiled
@pytest.mark.parametrize("shift", [0, 1], ids=["between steps", "between losses"])
def test_types_and_layouts_may_differ_within_a_model_and(shift, compiled):
    """Every two steps, and in one case each loss, lay their gradients otherwise."""
    torch.manual_seed(0)
    method = gs.bloop(lam=0.5, rho=0.3)
    types = [torch.float32, torch.float64, torch.bfloat16]
    parameters = [torch.nn.Parameter(torch.zeros(4, 6, 3, 2, dtype=dtype)) for dtype in types]
    surgery, reference = gst.Surgery(parameters, method, compile=compiled), gs.Reference(method)
    for step in range(6):
        gradients = [[torch.randn(one.shape).to(one.dtype) for one in parameters] for _ in range(2)]
        surgery._gathering.gradients = [
            [
                one.to(memory_format=torch.channels_last) if (step // 2 + shift * place) % 2 else one.clone()
                for one in loss
            ]
            for place, loss in enumerate(gradients)
        ]
        expected = reference(*(flat(loss) for loss in gradients))
        surgery.apply()
        assert off(flat([one.grad for one in parameters]), expected) < 2**-8  # of bfloat16
        assert off(flat(surgery.state_dict()["averages"][0]), reference.state.corrected[0]) < 1e-6


@pytest.mark.skipif(not hasattr(torch.Tensor, "grad_dtype"), reason="PyTorch before grad_dtype")
@eager_and_compiled
def test_a_parameter_may_get_gradients_of_two_types(compiled):
    parameter = torch.nn.Parameter(torch.zeros(64))
    parameter.grad_dtype = None
    surgery = gst.Surgery([parameter], gs.mixed(lam=0.5), compile=compiled)
    surgery._gathering.gradients = [[torch.full((64,), 3.001)], [torch.full((64,), 2.0, dtype=torch.bfloat16)]]
    surgery.apply()
    torch.testing.assert_close(parameter.grad, torch.full((64,), 4.001))
