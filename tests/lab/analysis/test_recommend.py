"""The recommended λ: numbers done by hand, and what is said when there is no answer."""

import math
from dataclasses import replace

import pytest

import gradsurgery as gs
from gradsurgery.lab import recommend
from gradsurgery.lab.analysis import compare_methods
from tests.lab.analysis.synthetic_runs import ending


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
    assert cosine.text == "cosine: main is beyond the allowance (main +50.0 %)"


def test_a_larger_allowance_takes_a_larger_lam():
    assert {best.method: best.lam for best in recommend(grid(POINTS), allow=0.2)} == {
        "bloop": 1.0, "mixed": 1.0, "cosine": None,
    }  # fmt: skip


def test_an_absolute_allowance_is_a_difference_of_losses():
    points = [(method, lam, 100 * main, aux) for method, lam, main, aux in POINTS]
    assert recommend(grid(points), allow=1.2, absolute=True)[0].lam == 0.1  # main 99; 101.5 is more than 1.2 worse
    bloop, _, cosine = recommend(grid(points), allow=1.6, absolute=True)
    assert (bloop.lam, bloop.text) == (0.3, "bloop, λ = 0.3: main +1.5, aux −40.0 % (one seed: no verdict)")
    assert cosine.text == "cosine: main is beyond the allowance (main +50)"


def test_seeds_are_compared_with_their_own_run_of_main_alone():
    easier = [(method, lam, main - 0.5, aux - 5) for method, lam, main, aux in POINTS]
    bloop = recommend(grid(POINTS) + grid(easier, seed=1), allow=0.03)[0]
    assert (bloop.seeds, bloop.certain) == (2, False)
    assert bloop.main.fraction().mean == pytest.approx(math.sqrt(1.015 * 1.03) - 1)
    assert bloop.aux.fraction().mean == pytest.approx(math.sqrt(0.6 * 0.2) - 1)


def test_a_seed_that_main_alone_lacks_is_left_out():
    records = grid(POINTS) + grid([("bloop", 0.3, 100.0, 6.0)], seed=1)
    assert recommend(records, allow=0.02)[0].text.startswith("bloop, λ = 0.3: main +1.5 %, aux −40.0 %")


def test_an_interval_that_reaches_beyond_the_allowance_is_pointed_out():
    noisy = [("mixed", 0.0, 1.0, 10.0), ("bloop", 0.3, 1.06, 6.0)]
    records = grid([("mixed", 0.0, 1.0, 10.0), ("bloop", 0.3, 0.97, 6.0)]) + grid(noisy, seed=1)
    (bloop,) = recommend(records, allow=0.02)
    assert bloop.main.fraction().mean == pytest.approx(math.sqrt(0.97 * 1.06) - 1)
    assert not bloop.certain
    assert bloop.text.endswith(" (main may be beyond the allowance)")


def test_a_run_that_diverged_is_not_recommended():
    records = grid([*POINTS, ("bloop", 10.0, math.nan, 0.0)])
    assert recommend(records, allow=10.0)[0].method == "cosine"
    assert {best.lam for best in recommend(records, allow=10.0) if best.method == "bloop"} == {1.0}


@pytest.mark.parametrize(
    "second_seed",
    [ending("bloop", 10.0, math.nan, 0.1, 1), replace(ending("bloop", 10.0, 1.0, 0.1, 1), status="failed", metrics=())],
    ids=["diverged", "failed"],
)
def test_a_weight_at_which_one_seed_diverged_or_failed_is_not_recommended(second_seed):
    good = grid(POINTS) + grid(POINTS, seed=1)
    risky = [*good, ending("bloop", 10.0, 1.0, 0.1, 0), second_seed]
    assert recommend(risky, allow=0.02)[0].lam == 0.3


def test_a_method_whose_runs_all_diverged_has_nothing_to_compare():
    records = [*grid(POINTS), ending("pcgrad", 0.1, math.inf, 1.0)]
    assert recommend(records)[-1].text.startswith("pcgrad: nothing to compare, as its runs diverged")


def test_a_method_beyond_the_allowance_names_its_closest_weight():
    records = grid([("mixed", 0.0, 1.0, 10.0), ("mixed", 0.1, 1.2, 9.0), ("mixed", 0.3, 1.1, 8.0)])
    (mixed,) = recommend(records)
    assert mixed.text == "mixed: no λ keeps main within the allowance (closest: λ = 0.3, main +10.0 %)"
    assert (mixed.lam, mixed.main, mixed.aux) == (None, None, None)


def test_a_weight_of_0_is_main_alone_whatever_the_method():
    records = grid([("mixed", 0.0, 1.0, 10.0), ("bloop", 0.0, 1.0, 9.9), ("bloop", 0.1, 2.0, 1.0)])
    (bloop,) = recommend(records)
    assert bloop.text.startswith("bloop: no λ keeps main within the allowance")


def test_the_best_rho_is_chosen_and_named():
    def bloop(rho, aux):
        record = ending("bloop", 0.3, 1.0, aux)
        return replace(record, spec=replace(record.spec, rho=rho))

    (best,) = recommend([ending("mixed", 0.0, 1.0, 10.0), bloop(0.01, 6.0), bloop(0.1, 5.0)])
    assert best.rho == 0.1
    assert best.text.startswith("bloop, λ = 0.3, ρ = 0.1: ")


def test_a_relative_weight_is_named_as_such_and_is_another_option_than_the_same_absolute_one():
    absolute = ending("bloop", 0.3, 1.0, 6.0)
    relative = replace(ending("bloop", 0.3, 1.0, 5.0), spec=replace(absolute.spec, lam=gs.relative(0.3)))
    (best,) = recommend([ending("mixed", 0.0, 1.0, 10.0), relative, absolute])
    assert best.lam == gs.relative(0.3)
    assert best.text.startswith("bloop, relative λ = 0.3: main +0.0 %, aux −50.0 %")


def test_negative_losses_are_written_as_losses_and_more_is_worse():
    points = [("mixed", 0.0, -2.0, 0.5), ("mixed", 0.1, -1.98, -1.5), ("mixed", 0.2, -1.9, -3.0)]
    (mixed,) = recommend(grid(points), allow=0.02)
    assert mixed.text.startswith("mixed, λ = 0.1: main −2 → −1.98, aux 0.5 → −1.5")


def test_a_change_that_rounds_to_0_has_no_minus():
    (mixed,) = recommend(grid([("mixed", 0.0, 1.0, 10.0), ("mixed", 0.1, 0.9999, 9.0)]))
    assert "main +0.0 %" in mixed.text


def test_main_alone_that_ends_at_0_needs_an_absolute_allowance():
    records = grid([("mixed", 0.0, 0.0, 10.0), ("mixed", 0.1, 0.005, 9.0)])
    with pytest.raises(ValueError, match="main = 0, so the allowance must be a difference"):
        recommend(records, allow=0.02)
    (mixed,) = recommend(records, allow=0.01, absolute=True)
    assert mixed.text.startswith("mixed, λ = 0.1: main +0.005, aux −10.0 %")


def test_one_seed_that_ends_at_0_does_not_prevent_a_percentage():
    points = [("mixed", 0.0, 0.0, 10.0), ("mixed", 0.1, 0.0, 9.0)]
    records = grid(points) + grid([(method, lam, 1.0, aux) for method, lam, _, aux in points], seed=1)
    assert recommend(records)[0].text.startswith(
        "mixed, λ = 0.1: main 0.5 → 0.5 [0.5, 0.5], aux −10.0 % [−10.0, −10.0]"
    )


def test_an_aux_of_main_alone_that_is_0_can_be_lowered():
    records = grid([("mixed", 0.0, 1.0, 0.0), ("mixed", 0.1, 1.0, -1.0), ("mixed", 0.2, 1.0, -2.0)])
    assert recommend(records)[0].lam == 0.2


def test_a_lam_that_makes_aux_worse_is_not_recommended():
    records = grid([("mixed", 0.0, 1.0, 1.0), ("mixed", 0.1, 0.9, 1.2), ("mixed", 0.2, 2.0, 0.5)])
    (mixed,) = recommend(records)
    assert (mixed.lam, mixed.code) == (None, "")
    assert mixed.text == "mixed: no λ within the allowance improves aux (closest: λ = 0.1, aux +20.0 %)"
    assert recommend(records, allow=1.0)[0].lam == 0.2


def test_an_aux_that_may_not_be_lower_is_pointed_out():
    points = [("mixed", 0.0, 1.0, 1.0), ("mixed", 0.1, 1.0, 0.8)]
    (mixed,) = recommend(grid(points) + grid([points[0], ("mixed", 0.1, 1.0, 1.1)], seed=1))
    assert mixed.text.endswith(" (aux may not be better)")


CODE = {
    "gs.bloop(lam=0.3, rho=0.01)": ("bloop", 0.3, 0.01),
    "gs.bloop(lam=gs.relative(0.65), rho=0.01)": ("bloop", gs.relative(0.65), 0.01),
    "gs.mixed(lam=0.00316)": ("mixed", 10**-2.5, None),
    "gs.cosine()": ("cosine", None, None),
    "steep(lam=2.0)": ("steep", 2.0, None),
}


@pytest.mark.parametrize(("code", "run"), CODE.items(), ids=CODE)
def test_a_recommendation_is_code_to_paste(code, run):
    method, lam, rho = run
    record = ending(method, lam, 1.0, 0.5)
    record = replace(record, spec=replace(record.spec, rho=rho))
    (best,) = recommend([ending("mixed", 0.0, 1.0, 1.0), record])
    assert best.code == code


def at_rate(rate, points, seed=0):
    """Runs with a learning rate beside a setting that all share."""
    records = grid(points, seed)
    settings = {"rate": rate, "epochs": 3}
    return [replace(record, spec=replace(record.spec, settings=settings)) for record in records]


def test_one_answer_across_settings_is_compared_with_the_best_main_alone():
    slow = at_rate(0.1, [("mixed", 0.0, 2.0, 9.0), ("bloop", 0.3, 2.0, 1.0), ("mixed", 0.3, 2.0, 5.0)])
    fast = at_rate(0.3, [("mixed", 0.0, 1.0, 10.0), ("bloop", 0.3, 1.0, 6.0), ("mixed", 0.3, 1.01, 8.0)])
    bloop, mixed = recommend(slow + fast)
    assert bloop.text.startswith("bloop, λ = 0.3, rate = 0.3: main +0.0 %, aux −40.0 %")  # not 1.0: main is 2.0
    assert bloop.settings == {"rate": 0.3}
    assert bloop.code == "gs.bloop(lam=0.3)  # with rate = 0.3"
    assert mixed.text.startswith("mixed, λ = 0.3, rate = 0.3: main +1.0 %, aux −20.0 %")


def test_main_alone_with_most_seeds_is_the_reference():
    """A second learning rate of which only one seed is trained yet would hide the pairs of the other."""
    points = [("mixed", 0.0, 1.0, 10.0), ("bloop", 0.3, 1.0, 6.0)]
    records = at_rate(0.1, points) + at_rate(0.1, points, seed=1) + at_rate(0.3, [("mixed", 0.0, 0.1, 10.0)])
    assert recommend(records)[0].seeds == 2


def test_runs_of_two_problems_are_not_mixed():
    with pytest.raises(ValueError, match="one problem at one scale"):
        recommend([*grid(POINTS), ending("mixed", 0.0, 1.0, 1.0, problem="weights")])


def test_without_main_alone_there_is_nothing_to_compare_with():
    with pytest.raises(ValueError, match="needs a finished run of main alone: train mixed with λ = 0"):
        recommend(grid(POINTS[1:]))


def test_main_alone_by_itself_has_nothing_to_recommend():
    with pytest.raises(ValueError, match="needs finished runs of another method"):
        recommend(grid(POINTS[:1]))


@pytest.mark.parametrize("allow", [-0.1, math.nan, math.inf])
def test_the_allowance_is_a_number_from_0(allow):
    with pytest.raises(ValueError, match="allowance for main must be a number of at least 0; got"):
        recommend(grid(POINTS), allow=allow)


def test_a_lam_that_diverged_in_training_is_not_recommended():
    """Its last held-out losses, from before, are finite."""

    def late(lam, aux, last):
        rows = ({"step": 5.0, "main_test": 1.0, "aux_test": aux}, {"step": 6.0, "main_train": last, "aux_train": last})
        return replace(ending("mixed", lam, 1.0, aux), metrics=rows)

    records = [late(0.0, 9.0, 1.0), late(0.1, 8.0, 1.0), late(0.5, 6.0, math.nan)]
    assert recommend(records)[0].lam == 0.1


def test_losses_too_large_to_compare_are_no_error():
    seeds = [1.1, 1e60]
    records = [ending("mixed", 0.0, 1.0, 1.0, seed) for seed in (0, 1)]
    records += [ending("mixed", 0.1, main, 0.5, seed) for seed, main in enumerate(seeds)]
    assert recommend(records)[0].lam is None
    assert compare_methods([*records, *(ending("bloop", 0.1, 1e300, 1e300, seed) for seed in (0, 1))], "train").methods
