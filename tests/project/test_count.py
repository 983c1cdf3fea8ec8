"""The words and kernels of a step, counted on the meta device: nobody loses them unawares."""

from pathlib import Path

import pytest
import torch

import gradsurgery as gs
from benchmarks.count import CASES, Traffic, count, table

SHAPES = [(1024, 1024), (1024,), (512, 2048), (512,)]


@pytest.mark.slow
def test_the_docs_have_the_counts():
    page = Path(__file__).parents[2] / "docs" / "speed.md"
    assert table() in page.read_text(encoding="utf-8"), "paste the output of python -m benchmarks.count"


@pytest.mark.parametrize(("label", "words"), [
    ("bloop", 16), ("bloop, two levels", 36), ("bloop, relative λ", 17), ("bloop, with a scaler", 18),
])  # fmt: skip
def test_eager_moves_no_more_than_this(label, words):
    assert count(**CASES[label], shapes=SHAPES).words < words


@pytest.mark.parametrize(("label", "words"), [
    ("bloop", (6, 2)), ("bloop, two levels", (10, 3)), ("pcgrad", (4, 1)), ("bloop, gradients in bfloat16", (4, 1.5)),
])  # fmt: skip
def test_compiled_reads_and_writes_each_word_once_a_pass(label, words):
    cost = count(**CASES[label], shapes=SHAPES, compiled=True)
    assert (cost.read, cost.written) == pytest.approx(words, rel=0.01)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_small_tensors_start_no_kernels(compiled):
    few, many = (count(gs.bloop(lam=0.1), shapes=[*SHAPES, *[(64,)] * n], compiled=compiled) for n in (10, 100))
    assert (few.kernels, few.scalar_kernels) == (many.kernels, many.scalar_kernels)


def test_operations_are_counted_once():
    vector, other, scalar = (torch.empty(shape, device="meta") for shape in (5000, 5000, ()))
    with Traffic() as traffic:
        torch.addcmul(vector, other, scalar, out=other)  # reads 10,001 words and writes 5,000
        vector.mul_(2.0)  # reads and writes 5,000
        vector.copy_(other)  # reads and writes 5,000
        vector.view(50, 100).T.reshape(-1)[3:]  # views, and one copy
        torch.dot(vector, vector)  # reads 10,000 and writes 1
        scalar + 1
    assert traffic.read == 4 * (10001 + 5000 + 5000 + 5000 + 10000 + 1)
    assert traffic.written == 4 * (5000 + 5000 + 5000 + 5000 + 1 + 1)
    assert (traffic.kernels, traffic.scalar_kernels) == (5, 1)
