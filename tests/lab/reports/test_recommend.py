"""The recommended λ: numbers done by hand, and what is said when there is no answer."""

import math

import pytest

from gradsurgery.lab.reports.recommend import recommend
from tests.lab.reports.synthetic_runs import ending


def grid(points, seed=0, scale=1.0):
    return [ending(method, lam, scale * main, scale * aux, seed) for method, lam, main, aux in points]


POINTS = [
    ("mixed", 0.0, 1.00, 10.0),
    ("mixed", 0.1, 1.01, 9.0),
    ("mixed", 1.0, 1.20, 5.0),
    ("bloop", 0.1, 0.99, 8.0),
    ("bloop", 0.3, 1.015, 6.0),
    ("bloop", 1.0, 1.10, 4.0),
    ("cosine", None, 1.5, 1.0),
]


def test_the_lowest_aux_within_the_allowance_is_recommended_for_each_method():
    bloop, mixed, cosine = recommend(grid(POINTS), allow=0.02)
    assert (bloop.method, bloop.lam, bloop.split) == ("bloop", 0.3, "train")
    assert bloop.text == "bloop, λ = 0.3: main +1.5 %, aux −40.0 % (one seed: no verdict)"
    assert mixed.text == "mixed, λ = 0.1: main +1.0 %, aux −10.0 % (one seed: no verdict)"
    assert cosine.text == "cosine: no λ keeps main within the allowance"


def test_a_larger_allowance_takes_a_larger_lam():
    assert {one.method: one.lam for one in recommend(grid(POINTS), allow=0.2)} == {
        "bloop": 1.0, "mixed": 1.0, "cosine": None,
    }  # fmt: skip


def test_an_absolute_allowance_is_a_difference_of_losses():
    points = [(method, lam, 100 * main, aux) for method, lam, main, aux in POINTS]
    assert recommend(grid(points), allow=1.2, absolute=True)[0].lam == 0.1  # main 99; 101.5 is more than 1.2 worse
    assert recommend(grid(points), allow=1.6, absolute=True)[0].lam == 0.3


def test_seeds_are_compared_with_their_own_run_of_main_alone():
    records = grid(POINTS) + grid(POINTS, seed=1, scale=2.0)
    bloop = recommend(records, allow=0.02)[0]
    assert (bloop.seeds, bloop.certain) == (2, True)
    assert bloop.text == "bloop, λ = 0.3: main +1.5 ± 0.0 %, aux −40.0 ± 0.0 %"


def test_a_spread_that_reaches_beyond_the_allowance_is_no_verdict():
    noisy = [("mixed", 0.0, 1.0, 10.0), ("bloop", 0.3, 1.06, 6.0)]
    records = grid([("mixed", 0.0, 1.0, 10.0), ("bloop", 0.3, 0.97, 6.0)]) + grid(noisy, seed=1)
    (bloop, _) = recommend(records, allow=0.02)
    assert bloop.main.mean == pytest.approx(0.015)
    assert not bloop.certain
    assert bloop.text.endswith("(within the spread of 2 seeds: no verdict)")


def test_a_run_that_diverged_is_not_recommended():
    records = grid([*POINTS, ("bloop", 10.0, math.nan, 0.0)])
    assert recommend(records, allow=10.0)[0].method == "cosine"
    assert {one.lam for one in recommend(records, allow=10.0) if one.method == "bloop"} == {1.0}


def test_without_main_alone_there_is_nothing_to_compare_with():
    with pytest.raises(ValueError, match="compares with main alone, but there is no finished run of it"):
        recommend(grid(POINTS[1:]))


@pytest.mark.parametrize("allow", [-0.1, math.nan, math.inf])
def test_the_allowance_is_a_number_from_0(allow):
    with pytest.raises(ValueError, match="allowance for main is a number of at least 0, but got"):
        recommend(grid(POINTS), allow=allow)
