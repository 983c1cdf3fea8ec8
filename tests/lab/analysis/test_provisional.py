"""An answer from few seeds or from an unfinished sweep says that it is provisional."""

from dataclasses import replace

import pytest

from gradsurgery.lab.analysis import Allowance, advise, collect_options
from gradsurgery.lab.analysis.outcomes import outcome_sentences, progress_sentences
from tests.lab.analysis.synthetic_runs import ending

POINTS = [("mixed", 0.1, 1.0, 9.0), ("bloop", 0.1, 1.0, 5.0)]


def grid(seeds, alone=3):
    """Main alone for all seeds, the others for the first few."""
    records = [ending("mixed", 0.0, 1.0, 10.0 + seed, seed) for seed in range(alone)]
    return records + [
        ending(method, lam, main, aux + seed, seed) for method, lam, main, aux in POINTS for seed in seeds
    ]


def provisional(records):
    return advise(collect_options(records), Allowance(0.02)).provisional


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (grid(range(3)), ""),
        (grid([0], alone=1), "one seed does not tell the spread"),
        (grid([0]), "one seed does not tell the spread, and 4 runs are still to come"),
        (grid([0, 1]), "2 runs are still to come"),
        ([*grid(range(3)), replace(ending("bloop", 1.0, 1.0, 4.0, 0), status="running")], "3 runs are still to come"),
    ],
    ids=["complete", "one seed", "first seed", "second seed", "running"],
)
def test_the_reason_is_named(records, reason):
    assert provisional(records) == reason


def test_a_lam_with_one_lucky_seed_does_not_replace_those_with_three():
    lucky = ending("bloop", 0.2, 1.0, 1.0)
    by_method = collect_options([*grid(range(3)), lucky]).by_method
    assert [option.lam for option in by_method["bloop"]] == [0.1]
    by_method = collect_options([*grid(range(2)), lucky]).by_method  # the second seed may be in training
    assert [option.lam for option in by_method["bloop"]] == [0.1, 0.2]


def test_a_lam_that_was_stopped_is_neither_recommended_nor_missing():
    stopped = replace(ending("bloop", 1.0, 9.0, 1.0), status="stopped")
    options = collect_options([*grid(range(3)), stopped])
    assert [option.lam for option in options.by_method["bloop"]] == [0.1]
    assert options.unfinished == 0
    assert outcome_sentences([*grid(range(3)), stopped]) == [
        "1 of 10 runs stopped early: main could not come back within the allowance."
    ]


def test_an_allowance_beyond_the_one_that_runs_were_stopped_for_is_provisional():
    stopped = replace(ending("bloop", 1.0, 9.0, 1.0), status="stopped", info={"allow": 0.05, "absolute": False})
    options = collect_options([*grid(range(3)), stopped])
    assert advise(options, Allowance(0.05)).provisional == ""
    for beyond in (Allowance(0.06), Allowance(0.01, absolute=True)):
        assert advise(options, beyond).provisional == "1 run stopped early for another allowance"


def test_a_sweep_without_an_answer_counts_what_is_missing():
    running = replace(ending("bloop", 0.1, 1.0, 5.0), status="running")
    assert progress_sentences([*grid([0], alone=2), running]) == ["3 runs are unfinished or missing."]
    assert progress_sentences(grid([0, 1, 2])) == []
