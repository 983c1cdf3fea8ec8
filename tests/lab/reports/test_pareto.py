import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradsurgery.lab.reports import pareto
from gradsurgery.lab.reports.series import series
from tests.lab.reports import synthetic_runs
from tests.lab.reports.synthetic_runs import run, sweep

losses = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e6, 1e6), st.floats(1e-12, 1e-6))
point = st.tuples(losses, losses)
points = st.lists(point, max_size=12)
strange = st.sampled_from([math.nan, math.inf, -math.inf])
REFERENCE = (10.0, 10.0)


def dominates(better, worse):
    return better[0] <= worse[0] and better[1] <= worse[1] and better != worse


# by hand


def test_a_front_by_hand():
    assert pareto.front([(3, 1), (1, 3), (2, 2), (2, 4), (3, 1), (4, 1)]) == [(1, 3), (2, 2), (3, 1)]


def test_a_hypervolume_by_hand():
    #  (10-1)(10-6) + (10-2)(6-3) + (10-5)(3-1)
    assert pareto.hypervolume([(5, 1), (1, 6), (2, 3)], REFERENCE) == 36 + 24 + 10


def test_what_lies_beyond_the_reference_counts_nothing():
    assert pareto.hypervolume([(11, -50), (-50, 11), (10, 0), (0, 10)], REFERENCE) == 0


def test_the_share_of_dominated_points_by_hand():
    rivals = [(2, 2), (5, 0)]
    assert pareto.dominated_share([(2, 2), (1, 9), (2, 3), (5, 1)], rivals) == 0.5
    assert pareto.dominated_share([(2, 2)], []) == 0
    assert math.isnan(pareto.dominated_share([], rivals))


def test_a_reference_that_bounds_nothing_is_refused():
    with pytest.raises(ValueError, match=r"so it is finite, but got \(1.0, inf\)"):
        pareto.hypervolume([(0, 0)], (1.0, math.inf))


# properties


@given(points)
def test_a_front_is_exactly_what_nothing_dominates(cloud):
    free = {point for point in cloud if not any(dominates(other, point) for other in cloud)}
    front = pareto.front(cloud)
    assert set(front) == free
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in itertools.pairwise(front))


@given(points, st.data())
def test_adding_a_dominated_point_changes_nothing(cloud, data):
    cloud = [*cloud, (0.5, 0.5)]
    base = data.draw(st.sampled_from(cloud))
    worse = (base[0] + data.draw(st.floats(0, 5)), base[1] + data.draw(st.floats(0, 5)))
    assert pareto.front([*cloud, worse]) == pareto.front(cloud)
    assert pareto.hypervolume([*cloud, worse], REFERENCE) == pareto.hypervolume(cloud, REFERENCE)


@given(points, point)
def test_the_hypervolume_grows_with_every_point(cloud, more):
    before, after = (pareto.hypervolume(some, REFERENCE) for some in (cloud, [*cloud, more]))
    assert after >= before * (1 - 1e-12)
    alone = pareto.hypervolume([more], REFERENCE)
    assert alone * (1 - 1e-12) <= after <= (before + alone) * (1 + 1e-12)


@given(points, st.randoms())
def test_the_order_of_points_does_not_matter(cloud, random):
    shuffled = random.sample(cloud, len(cloud))
    assert pareto.front(shuffled) == pareto.front(cloud)
    assert pareto.hypervolume(shuffled, REFERENCE) == pareto.hypervolume(cloud, REFERENCE)


@given(points, strange, losses)
def test_a_point_that_is_not_finite_is_none(cloud, value, loss):
    for no_point in ((value, loss), (loss, value), (value, value)):
        assert pareto.front([*cloud, no_point]) == pareto.front(cloud)
        assert pareto.hypervolume([*cloud, no_point], REFERENCE) == pareto.hypervolume(cloud, REFERENCE)


@given(st.lists(point, min_size=1, max_size=12), point)
def test_a_box_gives_shares_from_0_to_1_whatever_the_losses(cloud, other):
    main, aux = zip(*cloud, strict=True)
    box = pareto.Box(pareto.axis(main), pareto.axis(aux))
    assert 0 <= box.hypervolume([other]) <= 1 + 1e-12
    assert 0 < box.hypervolume([(min(main), min(aux))]) <= 1 + 1e-12


# axes


@pytest.mark.parametrize(
    ("values", "logarithmic"),
    [((0.1, 1.1), True), ((0.1, 1.0), False), ((0.0, 5.0), False), ((-2.0, 90.0), False), ((7.0,), False)],
)
def test_an_axis_is_logarithmic_if_all_is_positive_and_spans_more_than_a_decade(values, logarithmic):
    assert pareto.axis(values) == pareto.Axis(min(values), max(values), logarithmic)


def test_an_axis_leaves_out_a_run_about_to_diverge():
    assert pareto.axis([-1.0, 0.0, 1.0, 2.0, 5.0, 1e5]).worst == 5
    assert pareto.axis([1.0, 1.0, 1.0, 1.0, 9.0]).worst == 9  # but not where the middle half has no width


def test_places_on_an_axis_by_hand():
    assert [pareto.Axis(-1, 3, False).place(loss) for loss in (-9, -1, 0, 3, 7)] == [0, 0, 0.25, 1, 2]
    assert [pareto.Axis(1e-2, 1e2, True).place(loss) for loss in (-1, 1e-2, 1, 1e2)] == pytest.approx([0, 0, 0.5, 1])
    assert pareto.Axis(2, 2, False).view(logarithmic=False) == pytest.approx((1.8, 2.2))


# the table


def table(records, split="train"):
    return {row.label: row for row in pareto.summary(records, split)}


def test_the_table_of_a_sweep():
    rows = table(sweep())
    assert list(rows) == ["bloop", "mixed", "dynamic_barrier", "pcgrad"]
    assert all(0 < row.hypervolume < 1 and 0 < row.spread < 0.1 and row.runs == 15 for row in rows.values())
    assert rows["bloop"].hypervolume > rows["mixed"].hypervolume
    assert (rows["bloop"].dominated, rows["mixed"].dominated) == (0, 1)
    assert [row.failed for row in rows.values()] == [0, 0, 0, 1]


def test_a_hypervolume_in_the_table_by_hand():
    # two runs of a seed span the box from (1, 4) to (3, 2): the first alone has (1.1 - 0)(1.1 - 1), the second the same
    at = {0.1: (1.0, 4.0), 1.0: (3.0, 2.0)}
    rows = table([synthetic_runs.ending(method, lam, *at[lam]) for method, lam in (("mixed", 0.1), ("bloop", 1.0))])
    assert rows["mixed"].hypervolume == rows["bloop"].hypervolume == pytest.approx(0.11 / 1.21)
    assert (rows["mixed"].dominated, rows["bloop"].dominated) == (0, 0)


def test_fronts_are_compared_where_all_of_them_have_points_by_hand():
    # mixed goes on to main = 9; the common box runs from (1, 1) to (3, 3), and (1, 4) and (9, 0) lie beyond its margin
    ends = {"mixed": [(1.0, 4.0), (2.0, 3.0), (9.0, 0.0)], "bloop": [(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]}
    runs = [
        synthetic_runs.ending(method, lam, *point)
        for method, points in ends.items()
        for lam, point in zip((0.1, 0.3, 1.0), points, strict=True)
    ]
    rows = table(runs)
    assert rows["bloop"].hypervolume == pytest.approx((1.1 * 0.1 + 0.6 * 0.5 + 0.1 * 0.5) / 1.21)
    assert rows["mixed"].hypervolume == pytest.approx(0.6 * 0.1 / 1.21)
    single = synthetic_runs.ending("mgda", None, 1.5, 3.9)  # a method without a grid does not narrow the box
    assert table([*runs, single])["bloop"].hypervolume == rows["bloop"].hypervolume


def test_points_are_compared_within_a_seed():
    ahead = synthetic_runs.ending("mixed", 0.1, 1.0, 1.0, seed=0)
    behind = synthetic_runs.ending("bloop", 0.1, 2.0, 2.0, seed=1)
    assert math.isnan(table([ahead, behind])["bloop"].dominated)
    rival = synthetic_runs.ending("mixed", 0.1, 1.5, 1.5, seed=1)
    assert table([ahead, behind, rival])["bloop"].dominated == 1


def test_a_diverged_run_does_not_move_the_reference():
    wild = [*sweep(), synthetic_runs.ending("mixed", 100.0, 1e7, 1e7)]
    assert table(wild)["bloop"].hypervolume == table(sweep())["bloop"].hypervolume


@pytest.mark.parametrize("split", ["train", "test"])
def test_negative_losses_a_single_weight_and_a_single_seed(split):
    row = table(sweep(seeds=1, lams=(0.1,), negative=True), split)["mixed"]
    assert 0 < row.hypervolume < 1
    assert math.isnan(row.spread)
    assert math.isfinite(row.dominated)


def test_a_seed_whose_runs_all_diverged_has_hypervolume_0():
    row = table([run(seed=0), run(seed=1, diverged=True)])["bloop"]
    assert (row.hypervolume, row.runs, row.failed) == (0.5, 2, 1)


def test_nothing_but_diverged_failed_and_unfinished_runs():
    row = table([run(diverged=True), run(seed=1, status="failed", lam=0.2), run(seed=2, status="running")])["bloop"]
    assert (row.hypervolume, row.runs, row.failed) == (0, 2, 2)
    assert math.isnan(row.dominated)


def test_a_problem_without_these_losses_has_no_table():
    assert pareto.summary(sweep(test=False), "test") == []
    assert pareto.summary([]) == []


def test_several_rho_of_a_method_are_rows_of_their_own():
    assert list(table([run(rho=0.1), run(rho=0.01), run(rho=None)])) == [
        "bloop, no average",
        "bloop, ρ = 0.01",
        "bloop, ρ = 0.1",
    ]


def test_runs_of_two_problems_are_not_compared():
    with pytest.raises(
        ValueError, match="one problem at one scale, but got runs of lipschitz at demo and noise at demo"
    ):
        series([run(), synthetic_runs.ending("mixed", 0.1, 1.0, 1.0, problem="noise")])
