"""The passes, eager, in C++ and in Triton, do what ``Passes`` says. Triton's kernels run in its interpreter."""

import numpy as np
import pytest
import torch

from gradsurgery.torch import scalars
from gradsurgery.torch.passes import blocks as passes_blocks
from gradsurgery.torch.passes import make_passes
from tests.device import DEVICE
from tests.torch_front.passes.vectors import (
    SHAPES,
    Case,
    expected_products,
    expected_step,
    in_memory_order,
    make_blocks,
)

KINDS = ["eager", "eager on a device", "C++", "Triton"] if DEVICE == "cpu" else ["eager on a device", "Triton"]


@pytest.fixture(params=KINDS)
def make(request, monkeypatch):
    """Makes passes of each kind. For two of them the CPU may stand in for a device: their scalars are tensors."""
    on_device = request.param in ("eager on a device", "Triton")
    if on_device:
        monkeypatch.setattr(scalars, "is_async", lambda tensor: True)

    class Wrapped:
        def __init__(self, blocks, pairs=((0, 0),)):
            self._passes = make_passes(blocks, pairs, compile=request.param in ("C++", "Triton"))

        def products(self):
            products = self._passes.products()
            assert all(isinstance(product, torch.Tensor) == on_device for product in products)
            return [float(product) for product in products]

        def combine(self, weights, averaging, step, *, scaled=False):
            if on_device:  # the first weight stays a constant
                weights = [weights[0], *map(torch.tensor, weights[1:])]
                averaging = [tuple(map(torch.tensor, pair)) for pair in averaging]
            self._passes.combine(weights, averaging, step, scaled=scaled)

    return Wrapped


PAIRS = ((0, 0), (1, 2), (0, 2), (2, 2))
WEIGHTS = [1.0, 0.5, -0.25]
AVERAGING = [(1 - 2**-7, 2**-7), (0.625, 0.375)]  # new averages are exact in float32, and between bfloat16's numbers

TYPES = {
    "f64": (torch.float64, torch.float64, 0),
    "f32": (torch.float32, torch.float32, 0),
    "bf16": (torch.bfloat16, torch.float32, 2**-8),
    "f16": (torch.float16, torch.float32, 2**-11),
    "f64, averages bf16": (torch.float64, torch.bfloat16, 0),
    "f32, averages bf16": (torch.float32, torch.bfloat16, 0),
    "bf16, averages bf16": (torch.bfloat16, torch.bfloat16, 2**-8),
}


def assert_step(blocks, expected, tolerance=0.0):
    """The averages are equal bit for bit, the direction up to its rounding."""
    for block, (direction, averages) in zip(blocks, expected, strict=True):
        np.testing.assert_allclose(in_memory_order(block.gradients[-1]), direction, rtol=tolerance, atol=tolerance)
        for average, wanted in zip(block.averages, averages, strict=True):
            np.testing.assert_array_equal(in_memory_order(average), wanted)


@pytest.mark.parametrize(("dtype", "average_dtype", "tolerance"), TYPES.values(), ids=TYPES)
def test_both_passes(dtype, average_dtype, tolerance, make):
    blocks = make_blocks(Case(SHAPES, 2, 1, dtype, average_dtype))
    passes = make(blocks, PAIRS)
    np.testing.assert_allclose(passes.products(), expected_products(blocks, PAIRS), rtol=1e-5)
    expected = list(expected_step(blocks, WEIGHTS, AVERAGING, step=5))
    passes.combine(WEIGHTS, AVERAGING, 5)
    assert_step(blocks, expected, tolerance)


@pytest.mark.parametrize("average_dtype", [torch.float32, torch.bfloat16])
def test_long_vectors_are_cut_into_pieces(average_dtype, make, monkeypatch):
    for name in ("PIECE", "CONVERTED_PIECE", "DEVICE_PIECE"):
        monkeypatch.setattr(passes_blocks, name, 1000)
    blocks = make_blocks(Case(SHAPES, 2, 1, torch.float32, average_dtype))
    passes = make(blocks, PAIRS)
    np.testing.assert_allclose(passes.products(), expected_products(blocks, PAIRS), rtol=1e-5)
    expected = list(expected_step(blocks, WEIGHTS, AVERAGING, step=2))
    passes.combine(WEIGHTS, AVERAGING, 2)
    assert_step(blocks, expected)


def test_every_gradient_may_have_an_average(make):
    blocks = make_blocks(Case(SHAPES, 2, 2, torch.float32, torch.bfloat16))
    weights = [0.5, -1.0, 0.25, 2.0]
    expected = list(expected_step(blocks, weights, AVERAGING, step=0))
    make(blocks).combine(weights, AVERAGING, 0)
    assert_step(blocks, expected)


@pytest.mark.parametrize("average_dtype", [torch.float32, torch.bfloat16])
def test_averages_of_scaled_gradients(average_dtype, make):
    blocks = make_blocks(Case(SHAPES, 2, 1, torch.float32, average_dtype))
    averaging = [(keep, take / 64) for keep, take in AVERAGING]
    expected = list(expected_step(blocks, WEIGHTS, averaging, step=1))
    make(blocks, PAIRS).combine(WEIGHTS, averaging, 1, scaled=True)
    assert_step(blocks, expected)


@pytest.mark.parametrize("average_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("scaled", [False, True])
def test_averages_stay_where_nothing_is_taken(average_dtype, scaled, make):
    """Whatever the gradients are; only in the cohort that takes nothing."""
    blocks = make_blocks(Case(SHAPES, 2, 1, torch.float32, average_dtype))
    before = [block.averages[0].clone() for block in blocks]
    for block in blocks:
        if block.cohort == 0:
            block.gradients[0].fill_(torch.nan)
    make(blocks, PAIRS).combine(WEIGHTS, [(0.5, 0.0), (0.5, 0.5)], 0, scaled=scaled)
    for block, old in zip(blocks, before, strict=True):
        assert torch.equal(block.averages[0], old) == (block.cohort == 0 or old.numel() == 0)


def test_rounding_differs_from_step_to_step_and_between_parameters(make):
    case = Case([(1000,), (1000,)], 2, 1, torch.float32, torch.bfloat16)
    results = []
    for step in (3, 3, 4):
        blocks = make_blocks(case)
        for block in blocks:
            block.gradients[0].fill_(1 + 2**-8)
            block.averages[0].fill_(1)
        blocks = [block._replace(cohort=0) for block in blocks]
        make(blocks).combine(WEIGHTS, [(0.5, 0.5)], step)
        results.append(torch.stack([block.averages[0].float() for block in blocks]))
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert not torch.equal(results[0][0], results[0][1])
    assert results[0].mean() == pytest.approx(1 + 2**-9, abs=5e-4)  # 1 or 1 + 2**-7, unbiased
