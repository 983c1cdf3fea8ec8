"""The axes of figures and charts."""

import math
from dataclasses import replace

import pytest

from gradsurgery.lab.analysis import group_runs
from gradsurgery.lab.analysis.pareto import LossRange
from gradsurgery.lab.reports.axes import axis_limits, drawn_region, extend, lam_positions, lam_ticks, range_of
from tests.lab.analysis.synthetic_runs import ending, run, sweep

ENDS = ({"step": 1.0, "main_train": 30.0, "aux_train": 1e-13},)


@pytest.mark.parametrize(
    ("values", "logarithmic"),
    [((0.1, 1.1), True), ((0.1, 1.0), False), ((0.0, 5.0), False), ((-2.0, 90.0), False), ((7.0,), False)],
)
def test_a_range_is_logarithmic_if_losses_are_positive_and_span_more_than_a_decade(values, logarithmic):
    assert range_of(values) == LossRange(min(values), max(values), logarithmic)


def test_a_range_leaves_out_a_run_that_is_about_to_diverge():
    assert range_of([-1.0, 0.0, 1.0, 2.0, 5.0, 1e5]).worst == 5
    assert range_of([1.0, 1.0, 1.0, 1.0, 9.0]).worst == 9, "unless the others have no width"
    assert range_of([1.0, 1.1, 9.0]).worst == 9, "unless too few are left"


def test_a_range_leaves_out_a_loss_that_collapsed():
    assert range_of([1e-13, 1e-14, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]) == LossRange(0.5, 1.0, logarithmic=False)


def test_an_even_spread_over_many_decades_is_shown_as_a_whole():
    assert range_of([1e-6, 1e-4, 1e-2, 1.0]) == LossRange(1e-6, 1.0, logarithmic=True)


def test_an_outlier_in_one_loss_does_not_widen_the_other():
    collapsed = [replace(run("mixed", 100.0, seed=seed), metrics=ENDS) for seed in range(3)]
    regions = [drawn_region(group_runs(records), "train", []) for records in (sweep(), sweep() + collapsed)]
    assert regions[0] == regions[1]


def test_a_range_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one finite loss"):
        range_of([math.nan])


def test_dominated_points_do_not_widen_the_region():
    outlier = replace(run("mixed", 100.0), metrics=ending("mixed", 100.0, 1e7, 1e7).metrics)
    regions = [drawn_region(group_runs(records), "train", []) for records in (sweep(), [*sweep(), outlier])]
    assert regions[0] == regions[1]


@pytest.mark.parametrize(
    ("logarithmic", "loss", "extended"),
    [
        (False, 0.0, (0.0, 2.0)),
        (False, 4.0, (1.0, 4.0)),
        (False, 4.1, (1.0, 2.0)),
        (False, 1.5, (1.0, 2.0)),
        (True, 0.3, (0.3, 2.0)),
        (True, 7.9, (1.0, 7.9)),
        (True, 8.1, (1.0, 2.0)),
        (True, 0.0, (1.0, 2.0)),
        (True, -1.0, (1.0, 2.0)),
    ],
)
def test_a_range_is_extended_to_losses_up_to_twice_its_width_away(logarithmic, loss, extended):
    assert extend(LossRange(1.0, 2.0, logarithmic), [loss]) == LossRange(*extended, logarithmic)


def test_a_single_loss_has_an_axis():
    assert axis_limits(LossRange(2, 2, False), logarithmic=False) == pytest.approx((1.8, 2.2))


def test_lam_ticks_leave_labels_out_where_they_would_crowd():
    half_decades = [10 ** (exponent / 2) for exponent in range(-8, 1)]
    assert [text for text in lam_ticks(half_decades).values() if text] == ["10⁻⁴", "10⁻²", "1"]
    assert [text for text in lam_ticks(half_decades, room=6).values() if text] == ["10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "1"]
    assert lam_ticks([0.5, 0.25, None]) == {0.25: "0.25", 0.5: "0.5"}
    assert list(lam_ticks([0.0, 0.3, 0.4, 0.5, 0.6, 0.7]).values()) == ["0", "0.3", "0.4", "0.5", "0.6", "0.7"]


def test_lam_0_has_a_position_on_a_logarithmic_axis():
    assert lam_positions([0.0, 0.01, 1.0]) == {0.0: 0.001, 0.01: 0.01, 1.0: 1.0}
    assert lam_positions([0.0])[0.0] > 0


def test_an_infinite_lam_has_a_tick_beyond_the_others():
    assert lam_ticks([0.1, math.inf]) == {0.1: "0.1", math.inf: "∞"}
    assert lam_positions([0.1, 1.0, math.inf])[math.inf] == 10
