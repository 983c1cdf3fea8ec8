"""Hypervolumes of the methods, and when there is no verdict."""

import math

import pytest

from gradsurgery.lab.reports.comparison import compare
from gradsurgery.lab.reports.series import group_runs
from tests.lab.reports.synthetic_runs import ending, run, sweep


def results(records, split="train"):
    return {result.label: result for result in compare(records, split).results}


def runs_ending_at(**points_by_method):
    """One run for each final point, at increasing λ."""
    return [
        ending(method, 0.1 * (index + 1), *point)
        for method, points in points_by_method.items()
        for index, point in enumerate(points)
    ]


def test_the_methods_of_a_sweep_are_ranked_by_hypervolume():
    comparison = compare(sweep())
    assert comparison.no_verdict == ""
    by_method = results(sweep())
    assert list(by_method) == ["bloop", "mixed", "dynamic_barrier", "pcgrad"]
    assert all(0 < result.hypervolume < 1 and 0 < result.spread < 0.1 for result in by_method.values())
    assert all(result.runs == 15 for result in by_method.values())
    assert by_method["bloop"].hypervolume > by_method["mixed"].hypervolume
    assert (by_method["bloop"].dominated, by_method["mixed"].dominated) == (0, 1)
    assert [result.without_result for result in by_method.values()] == [0, 0, 0, 1]


BY_HAND = {"mixed": [(1.0, 4.0), (2.0, 3.0), (9.0, 0.0)], "bloop": [(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]}


def test_fronts_are_compared_where_all_of_them_have_points_by_hand():
    # mixed goes on to main = 9. The shared region is (1, 1) to (3, 3), and (1, 4) and (9, 0) are beyond its margin.
    by_method = results(runs_ending_at(**BY_HAND))
    assert by_method["bloop"].hypervolume == pytest.approx((1.1 * 0.1 + 0.6 * 0.5 + 0.1 * 0.5) / 1.21)
    assert by_method["mixed"].hypervolume == pytest.approx(0.6 * 0.1 / 1.21)


def test_a_method_with_too_few_points_has_no_hypervolume_and_changes_none():
    with_mgda = results([*runs_ending_at(**BY_HAND), ending("mgda", None, 1.5, 3.9)])
    assert math.isnan(with_mgda["mgda"].hypervolume)
    assert with_mgda["mgda"].dominated == 1
    assert with_mgda["bloop"].hypervolume == results(runs_ending_at(**BY_HAND))["bloop"].hypervolume


def test_points_are_compared_within_a_seed():
    ahead = ending("mixed", 0.1, 1.0, 1.0, seed=0)
    behind = ending("bloop", 0.1, 2.0, 2.0, seed=1)
    assert math.isnan(results([ahead, behind])["bloop"].dominated)
    rival = ending("mixed", 0.1, 1.5, 1.5, seed=1)
    assert results([ahead, behind, rival])["bloop"].dominated == 1


def test_a_run_about_to_diverge_changes_no_hypervolume():
    with_outlier = [*sweep(), ending("mixed", 100.0, 1e7, 1e7)]
    assert results(with_outlier)["bloop"].hypervolume == results(sweep())["bloop"].hypervolume


@pytest.mark.parametrize("split", ["train", "test"])
def test_negative_losses_and_a_single_seed(split):
    result = results(sweep(seeds=1, negative=True), split)["mixed"]
    assert 0 < result.hypervolume < 1
    assert math.isnan(result.spread)
    assert math.isfinite(result.dominated)


def test_a_seed_whose_runs_all_diverged_has_hypervolume_0():
    records = sweep(seeds=1, methods={"mixed": None, "bloop": None}, lams=(0.01, 0.03, 0.1, 0.3, 1.0, 3.0))
    one_seed = results(records)["bloop"]
    two_seeds = results([*records, run("bloop", seed=1, diverged=True)])["bloop"]
    assert two_seeds.hypervolume == pytest.approx(one_seed.hypervolume / 2)
    assert (two_seeds.runs, two_seeds.without_result) == (7, 1)


def test_a_method_that_is_dominated_everywhere_has_hypervolume_0():
    behind = [(2.0, 9.0), (5.0, 5.0), (9.0, 2.0)]
    comparison = compare(runs_ending_at(mixed=behind, bloop=[(0.1, 0.9), (0.5, 0.5), (0.9, 0.1)]))
    assert comparison.no_verdict == ""
    assert [result.hypervolume > 0 for result in comparison.results] == [True, False]


CONDITIONING = {
    "bloop": [(1e-23, 0.57), (1e-22, 0.5), (1e-20, 0.5), (1e-14, 0.50000004)],
    "mixed": [(5e-7, 0.567), (5e-5, 0.49), (0.03, 0.29), (0.4, 0.004)],
}
SAME_AUX = {"bloop": [(1.0, 5.0), (2.0, 5.0), (3.0, 5.0)], "mixed": [(1.5, 5.0), (2.5, 5.0), (3.5, 5.0)]}
NO_VERDICT = {
    "fronts do not overlap": (runs_ending_at(**CONDITIONING), "the fronts do not overlap: mixed has no point"),
    "one loss is constant": (runs_ending_at(**SAME_AUX), "the auxiliary loss does not vary where the methods overlap"),
    "points that are all equal": (
        runs_ending_at(bloop=[(1.0, 1.0)] * 3, mixed=[(1.0, 1.0)] * 3),
        "main loss does not vary",
    ),
    "one run": ([run()], "there is only one run"),
    "one method": (sweep(methods={"bloop": 0.01}), "bloop is the only method"),
    "two runs": ([run("mixed"), run("bloop")], "fewer than two methods have 3 final points per seed"),
    "two weights": (sweep(lams=(0.1, 1.0)), "fewer than two methods have 3 final points per seed"),
    "all diverged": ([run(diverged=True), run("mixed", diverged=True)], "no run ended with finite losses"),
}


@pytest.mark.parametrize(("records", "reason"), NO_VERDICT.values(), ids=NO_VERDICT)
def test_without_a_sound_comparison_there_is_no_verdict(records, reason):
    comparison = compare(records)
    assert reason in comparison.no_verdict
    assert comparison.results
    assert all(math.isnan(result.hypervolume) and math.isnan(result.spread) for result in comparison.results)


def test_failed_and_unfinished_runs_are_not_points():
    records = [run(diverged=True), run(seed=1, status="failed", lam=0.2), run(seed=2, status="running")]
    result = results(records)["bloop"]
    assert (result.runs, result.without_result) == (2, 2)
    assert math.isnan(result.dominated)


def test_a_problem_without_these_losses_has_no_results():
    for comparison in (compare(sweep(test=False), "test"), compare([])):
        assert (comparison.results, comparison.no_verdict) == ((), "")


def test_each_rho_of_a_method_has_its_own_result():
    assert list(results([run(rho=0.1), run(rho=0.01), run(rho=None)])) == [
        "bloop, no average",
        "bloop, ρ = 0.01",
        "bloop, ρ = 0.1",
    ]


def test_runs_of_two_problems_are_not_compared():
    message = "one problem at one scale, but got runs of lipschitz at demo and noise at demo"
    with pytest.raises(ValueError, match=message):
        group_runs([run(), ending("mixed", 0.1, 1.0, 1.0, problem="noise")])
