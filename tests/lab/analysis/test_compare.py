"""Fronts compared in their common region: by hand, and which runs do not count."""

import math

import pytest

from gradsurgery.lab.analysis import compare_fronts, compare_methods, fronts_of, group_runs
from gradsurgery.lab.analysis.interval import Estimate
from gradsurgery.lab.analysis.pareto import front
from tests.lab.analysis.synthetic_runs import ending, run, sweep


def compare(first, second):
    return compare_fronts({0: front(first)}, {0: front(second)})


def runs_ending_at(seed=0, **points_by_method):
    """One run for each final point, at increasing λ."""
    return [
        ending(method, 0.1 * (index + 1), *point, seed)
        for method, points in points_by_method.items()
        for index, point in enumerate(points)
    ]


ENDS = [(1.0, 2.0), (2.0, 1.0)]
CORNER = [(1.0, 2.0), (1.01, 1.01), (2.0, 1.0)]


def test_the_lead_in_hypervolume_by_hand():
    """In the unit square with a margin of a tenth: two ends dominate 0.11 + 0.1, a point near the corner the rest."""
    corner = (1.1 * 0.1 + 1.09 * (1 - 0.01) + 0.1 * 0.01) / 1.21
    assert compare(CORNER, ENDS).lead.interval.mean == pytest.approx(corner - (1.1 * 0.1 + 0.1 * 1.0) / 1.21)
    assert compare(ENDS, CORNER).lead.interval.mean == -compare(CORNER, ENDS).lead.interval.mean


def test_fronts_are_compared_only_where_both_have_points():
    """Beyond the end of the rival's front a method may have any loss."""
    longer = [(0.5, 9.0), *CORNER, (9.0, 0.5)]
    assert compare(longer, ENDS).lead.interval.mean == pytest.approx(compare(CORNER, ENDS).lead.interval.mean)


def test_main_at_equal_aux_by_hand():
    rivals = [(1 / aux, aux) for aux in (1.0, 2.0, 3.0, 4.0, 5.0)]
    lower = [(0.75 * main, aux) for main, aux in rivals]
    assert compare(lower, rivals).main_at_equal_aux.interval.mean == pytest.approx(-0.25)
    assert compare(lower[1:4], [*rivals, (100.0, 0.5)]).main_at_equal_aux.interval.mean == pytest.approx(-0.25)


def test_main_losses_that_are_not_positive_have_no_ratio():
    comparison = compare([(main - 1.5, aux) for main, aux in CORNER], [(main - 1.5, aux) for main, aux in ENDS])
    assert comparison.lead.interval.mean == pytest.approx(compare(CORNER, ENDS).lead.interval.mean)
    assert comparison.main_at_equal_aux == Estimate()


def test_only_seeds_with_both_fronts_count():
    """The region, too, is that of the common seeds: a rival's further seed changes nothing."""
    both = compare_fronts({0: CORNER, 1: [(5.0, 9.0), (9.0, 5.0)]}, {0: ENDS, 2: [(0.1, 9.0), (9.0, 0.1)]})
    assert both == compare(CORNER, ENDS)


REASONS = {
    "one point": ([(1.0, 1.0)], ENDS, "no seed has 2 points on both fronts"),
    "nothing": ([], ENDS, "no seed has 2 points on both fronts"),
    "better throughout": ([(0.1, 0.2), (0.2, 0.1)], ENDS, "dominates it everywhere"),
    "worse throughout": ([(9.0, 10.0), (10.0, 9.0)], ENDS, "dominated everywhere"),
    "elsewhere": ([(0.1, 9.0), (0.2, 8.0)], ENDS, "the fronts do not overlap"),
}


@pytest.mark.parametrize(("points", "rivals", "reason"), REASONS.values(), ids=REASONS)
def test_fronts_that_cannot_be_compared_say_why(points, rivals, reason):
    runs = {name: runs_ending_at(mixed=ends) for name, ends in (("first", points), ("second", rivals))}
    comparison = compare_fronts(*(fronts_of(records, "train") for records in runs.values()))
    assert (comparison.reason, comparison.lead) == (reason, Estimate())


def test_dominated_failed_and_diverged_runs_are_not_on_a_front():
    records = runs_ending_at(mixed=[*ENDS, (5.0, 5.0), (math.nan, 0.0)])
    records += [run("mixed", status="failed"), run("mixed", status="running")]
    assert fronts_of(records, "train") == {0: ENDS}


def test_each_method_is_compared_with_mixed():
    comparison = compare_methods(sweep(), "train")
    assert comparison.rival == "mixed"
    assert [method.label for method in comparison.methods] == ["bloop", "mixed", "dynamic_barrier", "pcgrad"]
    bloop, mixed, *_, pcgrad = comparison.methods
    assert bloop.fronts.reason == "dominates it everywhere" or bloop.fronts.lead.interval.low > 0
    assert mixed.fronts is None
    assert (pcgrad.runs, pcgrad.with_result) == (15, 14)


def test_without_mixed_the_first_method_is_the_rival():
    assert compare_methods(sweep(methods={"pcgrad": None, "bloop": 0.01}), "train").rival == "bloop"


def test_a_third_method_changes_nothing():
    two = runs_ending_at(bloop=CORNER, mixed=ENDS)
    with_third = [*two, *runs_ending_at(pcgrad=[(0.1, 1.5), (0.2, 0.3), (9.0, 0.01)]), ending("mgda", None, 1.5, 3.9)]
    first, second = (compare_methods(records, "train").methods[0] for records in (two, with_third))
    assert first == second


def test_several_seeds_have_an_interval():
    records = [
        *runs_ending_at(bloop=CORNER, mixed=ENDS),
        *runs_ending_at(1, bloop=CORNER, mixed=[(1.0, 1.9), (2.1, 1.0)]),
    ]
    (bloop, _) = compare_methods(records, "train").methods
    assert list(bloop.fronts.lead.by_seed) == [0, 1]
    assert bloop.fronts.lead.interval.low < bloop.fronts.lead.interval.mean < bloop.fronts.lead.interval.high


def test_a_problem_without_these_losses_has_no_methods():
    for records, split in ((sweep(test=False), "test"), ([], "train")):
        assert compare_methods(records, split).methods == ()


def test_each_rho_of_a_method_is_compared():
    labels = [method.label for method in compare_methods([run(rho=0.1), run(rho=0.01), run(rho=None)], "train").methods]
    assert labels == ["bloop, no average", "bloop, ρ = 0.01", "bloop, ρ = 0.1"]


def test_runs_of_two_problems_are_not_compared():
    with pytest.raises(ValueError, match="one problem at one scale; got runs of lipschitz at demo and noise at demo"):
        group_runs([run(), ending("mixed", 0.1, 1.0, 1.0, problem="noise")])


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate({0: 1.0, 1: 2.0, 2: 3.0}), "2 [−0.484, 4.48]"),
        (Estimate({0: 0.25}), "0.25"),
        (Estimate(), "–"),
    ],
)
def test_an_estimate_is_written_with_its_interval(estimate, text):
    assert estimate.describe() == text


def test_a_fraction_is_written_in_percent():
    assert Estimate({0: 0.25}).describe(percent=True) == "25 %"
    assert Estimate({0: 0.25, 1: 0.25}).describe(percent=True) == "25 % [25, 25]"
