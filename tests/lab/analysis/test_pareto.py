import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsurgery.lab.analysis.pareto import LossRange, Region, are_dominated, front, hypervolume
from tests.lab.analysis.points import losses, point, points

not_finite = st.sampled_from([math.nan, math.inf, -math.inf])
REFERENCE = (10.0, 10.0)


def dominates(better, worse):
    return better[0] <= worse[0] and better[1] <= worse[1] and better != worse


def test_a_front_by_hand():
    assert front([(3, 1), (1, 3), (2, 2), (2, 4), (3, 1), (4, 1)]) == [(1, 3), (2, 2), (3, 1)]


def test_a_hypervolume_by_hand():
    #  (10-1)(10-6) + (10-2)(6-3) + (10-5)(3-1)
    assert hypervolume([(5, 1), (1, 6), (2, 3)], REFERENCE) == 36 + 24 + 10


def test_points_beyond_the_reference_add_nothing():
    assert hypervolume([(11, -50), (-50, 11), (10, 0), (0, 10)], REFERENCE) == 0


def test_rivals_that_dominate_points_by_hand():
    rivals = [(2, 2), (5, 0)]
    assert are_dominated([(2, 3), (5, 1)], rivals)
    assert not are_dominated([(2, 3), (1, 9)], rivals)
    assert not are_dominated([(2, 2)], rivals), "equal points do not dominate each other"
    assert not are_dominated([(2, 2)], [])


def test_an_infinite_reference_is_refused():
    with pytest.raises(ValueError, match=r"must be finite; got \(1.0, inf\)"):
        hypervolume([(0, 0)], (1.0, math.inf))


@given(points)
def test_a_front_holds_exactly_the_points_that_no_other_dominates(cloud):
    not_dominated = {point for point in cloud if not any(dominates(other, point) for other in cloud)}
    kept = front(cloud)
    assert set(kept) == not_dominated
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(kept))


@given(points, st.data())
def test_adding_a_dominated_point_changes_nothing(cloud, data):
    cloud = [*cloud, (0.5, 0.5)]
    base = data.draw(st.sampled_from(cloud))
    worse = (base[0] + data.draw(st.floats(0, 5)), base[1] + data.draw(st.floats(0, 5)))
    assert front([*cloud, worse]) == front(cloud)
    assert hypervolume([*cloud, worse], REFERENCE) == hypervolume(cloud, REFERENCE)


@given(points, point)
def test_the_hypervolume_never_shrinks_with_another_point(cloud, added):
    before, after = (hypervolume(points, REFERENCE) for points in (cloud, [*cloud, added]))
    assert after >= before * (1 - 1e-12)
    alone = hypervolume([added], REFERENCE)
    assert alone * (1 - 1e-12) <= after <= (before + alone) * (1 + 1e-12)


@given(points, st.randoms())
def test_the_order_of_points_does_not_matter(cloud, random):
    shuffled = random.sample(cloud, len(cloud))
    assert front(shuffled) == front(cloud)
    assert hypervolume(shuffled, REFERENCE) == hypervolume(cloud, REFERENCE)


@given(points, not_finite, losses)
def test_points_that_are_not_finite_are_ignored(cloud, value, loss):
    for ignored in ((value, loss), (loss, value), (value, value)):
        assert front([*cloud, ignored]) == front(cloud)
        assert hypervolume([*cloud, ignored], REFERENCE) == hypervolume(cloud, REFERENCE)


def test_the_share_of_a_region_by_hand():
    # each point alone dominates 1.1 - 0 in one loss and 1.1 - 1 in the other, of 1.1 x 1.1
    region = Region(LossRange(1, 3, False), LossRange(2, 4, False))
    assert region.hypervolume([(1, 4)]) == region.hypervolume([(3, 2)]) == pytest.approx(0.11 / 1.21)
    assert region.hypervolume([(1, 2)]) == pytest.approx(1)


@given(st.lists(point, min_size=1, max_size=12), point)
def test_the_share_of_a_region_is_from_0_to_1(cloud, other):
    main, aux = zip(*cloud, strict=True)
    region = Region(LossRange.between(min(main), max(main)), LossRange.between(min(aux), max(aux)))
    assert 0 <= region.hypervolume([other]) <= 1 + 1e-12
    assert 0 < region.hypervolume([(min(main), min(aux))]) <= 1 + 1e-12


def test_positions_on_an_axis_by_hand():
    assert [LossRange(-1, 3, False).position(loss) for loss in (-9, -1, 0, 3, 7)] == [0, 0, 0.25, 1, 2]
    logarithmic = LossRange(1e-2, 1e2, True)
    assert [logarithmic.position(loss) for loss in (-1, 1e-2, 1, 1e2)] == pytest.approx([0, 0, 0.5, 1])


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
