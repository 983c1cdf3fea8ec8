"""Stochastic rounding to bfloat16: unbiased, from a counter alone, and the same on every platform."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gradsurgery.rounding import mix, noise, round_to_bfloat16, stream_key

POSITIONS = np.arange(1 << 12, dtype=np.uint32)


def bits(values):
    return np.asarray(values, np.float32).view(np.uint32)


def test_the_stream_is_the_one_that_every_front_end_implements():
    """Changing it would change resumed runs."""
    assert [int(stream_key(*words)) for words in [(0,), (0, 0, 0), (7, 0, 2), (2**31 - 1, 1, 600)]] == [
        2462723854,
        1422740206,
        3233414036,
        1694916808,
    ]
    assert noise(stream_key(7, 0, 2), POSITIONS[:4]).tolist() == [63417, 44128, 49262, 54460]
    assert noise(stream_key(7, 0, 2), np.array([2**32 - 1], np.uint32)).tolist() == [8188]


def test_python_integers_give_the_same_hash():
    def plain(x):
        x = (x ^ (x >> 16)) * 0x85EBCA6B % 2**32
        x = (x ^ (x >> 13)) * 0xC2B2AE35 % 2**32
        return x ^ (x >> 16)

    inputs = np.random.default_rng(0).integers(2**32, size=1000, dtype=np.uint32)
    assert_array_equal(mix(inputs), [plain(int(x)) for x in inputs])


@pytest.mark.parametrize("value", [1.0 + 2**-10, -3.1415927, 1e-30, -6e37, 1e-41], ids=str)
def test_a_value_rounds_to_its_neighbours_and_is_right_on_average(value):
    rounded = np.concatenate(
        [round_to_bfloat16(np.full(4096, value, np.float32), stream_key(step)) for step in range(64)]
    )
    below, above = bits(value) & 0xFFFF0000, (bits(value) & 0xFFFF0000) + 0x10000
    assert set(bits(rounded)) == {below, above}
    share = np.mean(bits(rounded) == above)
    expected = (int(bits(value)) & 0xFFFF) / 2**16
    assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / rounded.size)


def test_exact_values_infinities_and_nan_survive():
    exact = np.array([0.0, -0.0, 1.0, -1.5, 2.0**-133, 3.3895314e38, np.inf, -np.inf], np.float32)
    for step in range(100):
        assert_array_equal(bits(round_to_bfloat16(exact, stream_key(step))), bits(exact))
        payloads = np.array([0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF], np.uint32).view(np.float32)
        assert np.isnan(round_to_bfloat16(payloads, stream_key(step))).all()


@pytest.mark.parametrize("other", [(8, 0, 2), (7, 1, 2), (7, 0, 3), (0, 7, 2), (7, 0, 2, 0)], ids=str)
def test_streams_of_other_steps_levels_leaves_and_shards_are_independent(other):
    noises = [noise(stream_key(*words), POSITIONS) / 2**16 - 0.5 for words in ((7, 0, 2), other)]
    assert abs(np.corrcoef(noises)[0, 1]) < 5 / np.sqrt(POSITIONS.size)


def test_the_noise_is_uniform_over_positions_and_over_steps():
    over_positions = noise(stream_key(3, 0, 0), POSITIONS)
    over_steps = np.array([noise(stream_key(step, 0, 0), POSITIONS[5:6])[0] for step in range(4096)])
    for sample in (over_positions, over_steps):
        counts = np.bincount(sample >> 12, minlength=16)
        assert ((counts - 256) ** 2 / 256).sum() < 40  # chi squared with 15 degrees of freedom
        assert abs(np.corrcoef(sample[1:], sample[:-1])[0, 1]) < 5 / np.sqrt(sample.size)
