import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsurgery.lab.reports.region import LossRange, Region, range_of, region_of_fronts
from gradsurgery.lab.reports.series import group_runs
from tests.lab.reports.points import point
from tests.lab.reports.synthetic_runs import ending, sweep


def test_a_hypervolume_by_hand():
    # each point alone dominates 1.1 - 0 in one loss and 1.1 - 1 in the other, of 1.1 x 1.1
    region = Region(LossRange(1, 3, False), LossRange(2, 4, False))
    assert region.hypervolume([(1, 4)]) == region.hypervolume([(3, 2)]) == pytest.approx(0.11 / 1.21)
    assert region.hypervolume([(1, 2)]) == pytest.approx(1)


@given(st.lists(point, min_size=1, max_size=12), point)
def test_a_hypervolume_is_a_share_from_0_to_1(cloud, other):
    main, aux = zip(*cloud, strict=True)
    region = Region(range_of(main), range_of(aux))
    assert 0 <= region.hypervolume([other]) <= 1 + 1e-12
    assert 0 < region.hypervolume([(min(main), min(aux))]) <= 1 + 1e-12


@pytest.mark.parametrize(
    ("values", "logarithmic"),
    [((0.1, 1.1), True), ((0.1, 1.0), False), ((0.0, 5.0), False), ((-2.0, 90.0), False), ((7.0,), False)],
)
def test_a_range_is_logarithmic_if_losses_are_positive_and_span_more_than_a_decade(values, logarithmic):
    assert range_of(values) == LossRange(min(values), max(values), logarithmic)


def test_a_range_leaves_out_a_run_that_is_about_to_diverge():
    assert range_of([-1.0, 0.0, 1.0, 2.0, 5.0, 1e5]).worst == 5
    assert range_of([1.0, 1.0, 1.0, 1.0, 9.0]).worst == 9, "unless the middle half has no width"


def test_a_range_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one finite loss"):
        range_of([math.nan])


def test_positions_on_an_axis_by_hand():
    assert [LossRange(-1, 3, False).position(loss) for loss in (-9, -1, 0, 3, 7)] == [0, 0, 0.25, 1, 2]
    logarithmic = LossRange(1e-2, 1e2, True)
    assert [logarithmic.position(loss) for loss in (-1, 1e-2, 1, 1e2)] == pytest.approx([0, 0, 0.5, 1])
    assert LossRange(2, 2, False).axis_limits(logarithmic=False) == pytest.approx((1.8, 2.2))


@pytest.mark.parametrize(
    ("best", "worst", "degenerate"),
    [
        (1, 2, False),
        (2, 2, True),
        (3, 2, True),
        (0, 0, True),
        (0, 1e-20, False),
        (0.49999994, 0.5, True),
        (-1, 1, False),
    ],
)
def test_a_range_no_wider_than_rounding_is_degenerate(best, worst, degenerate):
    assert LossRange(best, worst, False).is_degenerate is degenerate


def test_dominated_points_do_not_widen_the_region():
    outlier = ending("mixed", 100.0, 1e7, 1e7)
    assert region_of_fronts(group_runs([*sweep(), outlier]), "train") == region_of_fronts(group_runs(sweep()), "train")


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
    assert LossRange(1.0, 2.0, logarithmic).extend([loss]) == LossRange(*extended, logarithmic)
