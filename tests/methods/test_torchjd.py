"""Our formulas against those of TorchJD, on pairs drawn by hypothesis."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

import gradsurgery as gs

torch = pytest.importorskip("torch")
aggregation = pytest.importorskip("torchjd.aggregation")

# TorchJD adds an absolute 1e-8 to denominators, so gradients are not tiny here, and not collinear for GradVac, which
# takes the root of 1 - cos^2
pairs = arrays(np.float64, st.tuples(st.just(2), st.integers(2, 6)), elements=st.floats(-10, 10)).filter(
    lambda pair: np.linalg.norm(pair, axis=1).min() > 0.1
)

angled_pairs = pairs.filter(lambda pair: abs(gs.cos(*pair)) < 0.99)


def aggregate(aggregator, pair):
    return aggregator(torch.from_numpy(pair)).numpy()


@given(pairs)
def test_pcgrad(pair):
    expected = aggregate(aggregation.PCGrad(), pair)
    assert_allclose(gs.Reference(gs.pcgrad(lam=1.0))(*pair), expected, rtol=1e-9, atol=1e-9)


@given(pairs)
def test_mgda(pair):
    """Compared by length: if the gradients are almost equal, every combination of them is almost the shortest."""
    expected = aggregate(aggregation.MGDA(epsilon=1e-9), pair)
    direction = gs.Reference(gs.mgda())(*pair)
    assert_allclose(direction, expected, atol=1e-6)
    assert np.linalg.norm(direction) <= np.linalg.norm(expected) + 1e-9


@given(st.lists(angled_pairs, min_size=2, max_size=5), st.floats(0.05, 0.9))
def test_gradvac(history, beta):
    step, aggregator = gs.Reference(gs.gradvac(beta=beta)), aggregation.GradVac(beta=beta)
    for pair in history:
        assert_allclose(step(*pair), aggregate(aggregator, pair), rtol=1e-5, atol=1e-5)
