"""Intervals over seeds, and how many seeds it would take."""

import math
import statistics

import pytest
from scipy import stats

from gradsurgery.lab.analysis.interval import growth, interval_of, seeds_needed, student_t


def test_student_t_is_scipys():
    for degrees in (*range(1, 40), 100, 1000):
        assert student_t(degrees) == pytest.approx(stats.t.ppf(0.975, degrees))
        assert student_t(degrees, 0.99) == pytest.approx(stats.t.ppf(0.995, degrees))


def test_the_interval_of_three_seeds_by_hand():
    """Mean 2, standard deviation 1, t = 4.303 for two degrees of freedom."""
    interval = interval_of([1.0, 2.0, 3.0])
    reach = 4.302653 / math.sqrt(3)
    assert (interval.mean, interval.seeds) == (2.0, 3)
    assert (interval.low, interval.high) == pytest.approx((2 - reach, 2 + reach))


@pytest.mark.parametrize("values", [[], [1.0], [1.0, math.nan], [1.0, math.inf], [math.inf, -math.inf]])
def test_the_interval_of_one_seed_is_infinite(values):
    interval = interval_of(values)
    assert (interval.low, interval.high, interval.seeds) == (-math.inf, math.inf, len(values))


@pytest.mark.parametrize("values", [[0.5, 1.0, 1.5], [1.0, 2.0, 3.0, 4.0], [-1.0, -1.2], [0.1, 1.0]])
def test_as_many_seeds_as_needed_and_not_one_fewer(values):
    mean, deviation, seeds = statistics.fmean(values), statistics.stdev(values), seeds_needed(values)
    reach = [stats.t.ppf(0.975, count - 1) * deviation / math.sqrt(count) for count in (seeds, max(seeds - 1, 2))]
    assert reach[0] < abs(mean)
    assert seeds == 2 or reach[1] >= abs(mean)


def test_no_number_of_seeds_tells_equal_methods_apart():
    assert seeds_needed([0.0, 0.0]) is None
    assert seeds_needed([-1.0, 1.0]) is None


def test_numbers_whose_sum_or_square_is_too_large_for_a_float():
    assert interval_of([1.5e308] * 3).mean == pytest.approx(1.5e308)
    wide = interval_of([1e160, 1.0, 2.0])
    assert wide.high - wide.mean == pytest.approx(4.302653 * 1e160 / 3)
    assert (growth(0.0), growth(1e4), growth(-1e4)) == (0.0, math.inf, -1.0)
