"""Which method wins: by hand, and never by chance."""

import random
import re

import pytest

from gradsurgery.lab.analysis import Allowance, advise, collect_options
from tests.lab.analysis.synthetic_runs import ending


def verdict(records, allow=0.02):
    return advise(collect_options(records), Allowance(allow)).verdict


def winner(records, allow=0.02):
    method, wins, _ = verdict(records, allow).partition(" wins")
    return method if wins else None


def seeds_needed(text):
    return int(re.search(r"About (\d+) seeds would decide\.", text)[1])


def two_methods(bloop, mixed, alone=None, main=1.0):
    """Runs of main alone, bloop and mixed with these final aux losses, one for each seed."""
    alone = alone or [10.0] * len(bloop)
    return [
        ending(method, lam, loss, aux[seed], seed)
        for method, lam, loss, aux in (
            ("mixed", 0.0, 1.0, alone),
            ("bloop", 0.3, main, bloop),
            ("mixed", 0.1, 1.0, mixed),
        )
        for seed in range(len(bloop))
    ]


BEYOND = [ending("mixed", 0.1, main, 1.0, seed) for seed, main in enumerate((9.0, 9.1, 9.2))]
VERDICTS = {
    "clear": (
        two_methods([4, 5, 6], [8, 9, 11]),
        "bloop wins (its aux against mixed, λ = 0.1: −46.7 % [−53.6, −38.7]).",
    ),
    "close": (
        two_methods([1, 5, 9], [2, 6, 10]),
        "Undecided between bloop and mixed (its aux against mixed, λ = 0.1: −",
    ),
    "one seed": (two_methods([4], [8]), ""),
    "no rival": (
        [*two_methods([4, 4.1, 4.2], [8, 8, 8])[:6], *BEYOND],
        "bloop wins: no other method keeps main within the allowance.",
    ),
    "none": (
        [ending("mixed", 0.0, 1.0, 1.0), ending("mixed", 0.1, 9.0, 1.0), ending("bloop", 0.1, 9.0, 1.0)],
        "No method improves aux within the allowance: train on main alone.",
    ),
    "same seeds": (
        two_methods([4, 4], [8, 8]),
        "Undecided: bloop has the best aux, but all seeds gave the same numbers.",
    ),
    "other seeds": (
        [*two_methods([4, 4.1, 4.2], [8, 8, 8])[:6], ending("mixed", 0.1, 1.0, 9.0, 2)],
        "Undecided: bloop has the best aux, but shares fewer than two seeds with the others.",
    ),
    "one method": (two_methods([4], [8])[:2], ""),
}


@pytest.mark.parametrize(("records", "sentence"), VERDICTS.values(), ids=VERDICTS)
def test_the_verdict_names_the_winner_or_why_there_is_none(records, sentence):
    text = verdict(records)
    assert text.startswith(sentence)
    assert bool(text) == bool(sentence)


def test_methods_are_compared_with_one_another_and_not_with_main_alone():
    """An untrained head has any aux. Bloop's is a fifth of mixed's at every seed all the same."""
    seeds = range(5)
    records = two_methods([0.1 + 0.001 * s for s in seeds], [0.5 + 0.001 * s for s in seeds], [1.0, 5.0, 9.0, 3.0, 7.0])
    assert winner(records) == "bloop"


def test_main_that_may_be_beyond_the_allowance_is_no_win():
    mains = (0.99, 1.03, 1.0)
    records = [ending("mixed", lam, 1.0, aux, seed) for lam, aux in ((0.0, 10.0), (0.1, 9.0)) for seed in range(3)]
    records += [ending("bloop", 0.3, main, 6.0, seed) for seed, main in enumerate(mains)]
    answer = verdict(records)
    assert answer.startswith("Undecided: bloop has the best aux, but its main may be beyond the allowance. About ")
    assert seeds_needed(answer) > 3, "three did not decide"
    assert winner(records, allow=0.1) == "bloop"


def test_a_rival_that_may_be_within_the_allowance_is_not_left_out():
    """Its main is 2.1 % worse on average, by chance or not, and its aux is as low."""
    records = two_methods([5.0, 5.1, 5.2], [5.1, 5.0, 5.2])
    records = [record for record in records if record.spec.method == "bloop" or not record.spec.lam]
    records += [ending("mixed", 0.1, main, 5.1, seed) for seed, main in enumerate((1.0, 1.02, 1.043))]
    assert verdict(records).startswith("Undecided between bloop and mixed")


def test_as_many_seeds_as_it_takes():
    few = two_methods([5.0, 6.0, 5.5], [6.0, 6.2, 7.5])
    assert seeds_needed(verdict(few)) == 5
    repeated = two_methods([5.0, 6.0, 5.5] * 2, [6.0, 6.2, 7.5] * 2)
    assert winner(repeated) == "bloop"


def test_equal_methods_would_need_more_seeds_than_anybody_trains():
    answer = verdict(two_methods([5.0, 6.0, 5.5], [5.0, 6.0, 5.5]))
    assert answer.endswith("More than 100 seeds would decide.")


def identical_methods(lams, seeds, generator):
    """Two methods whose aux is the same random variable, with a part that the runs of a seed share."""
    records = []
    for seed in range(seeds):
        shared = generator.gauss(0, 0.05)
        records.append(ending("mixed", 0.0, 1.0, 1.0, seed))
        for method, count in zip(("mixed", "bloop"), lams, strict=True):
            records += [
                ending(method, 1.0 + k, 1.0 + generator.gauss(0, 0.002), 0.5 + shared + generator.gauss(0, 0.05), seed)
                for k in range(count)
            ]
    return records


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [2, 3, 8])
@pytest.mark.parametrize("lams", [(1, 1), (7, 7), (12, 1)], ids=["one λ", "seven λ", "twelve λ against one"])
def test_identical_methods_win_in_at_most_5_percent_of_sweeps(lams, seeds):
    """The standard error of a rate of 5 % in 400 trials is 1.1 %."""
    generator, trials = random.Random(f"{lams} {seeds}"), 400
    wins = sum(winner(identical_methods(lams, seeds, generator)) is not None for _ in range(trials))
    assert wins / trials <= 0.05 + 3 * 0.011


HINTS = {
    "same seeds": (two_methods([4, 4], [8, 8]), "All seeds gave the same numbers: is the seed used?"),
    "no help": (two_methods([14, 15], [18, 19]), "No λ improves aux: does the method get the right loss?"),
    "largest": (
        [ending("mixed", lam, 1.0, 1 / (1 + lam)) for lam in (0.0, 0.1, 1.0)],
        "The best λ of mixed is the largest tried: a larger one may improve aux further.",
    ),
    "plateau": (
        [
            ending("mixed", lam, 1.0, (0.5 if lam else 9.0) + 0.01 * (7 * seed * (1 + lam) % 1), seed)
            for lam in (0.0, 0.1, 0.3, 1.0)
            for seed in range(3)
        ],
        "mixed has the same aux from λ = 0.1 to 1, within the spread over seeds.",
    ),
}


@pytest.mark.parametrize(("records", "hint"), HINTS.values(), ids=HINTS)
def test_a_sweep_that_can_be_improved_has_a_hint(records, hint):
    assert advise(collect_options(records), Allowance(0.02)).hints == (hint,)


def test_a_good_sweep_has_no_hints():
    records = [
        ending("mixed", lam, 1.0 + 0.001 * lam * (1 + seed), 1 / (1 + lam) + 0.001 * seed, seed)
        for lam in (0.0, 1.0, 10.0, 100.0)
        for seed in range(3)
    ]
    assert advise(collect_options(records), Allowance(0.03)).hints == ()


def test_a_lower_aux_beyond_the_allowance_is_no_plateau():
    records = [
        ending("mixed", lam, 1.0 + lam, 1 / (1 + lam) + 0.001 * seed, seed)
        for lam in (0.0, 0.01, 1.0)
        for seed in range(3)
    ]
    assert advise(collect_options(records), Allowance(0.02)).hints == ()


def test_a_larger_lam_that_diverged_was_tried():
    records = [ending("mixed", lam, 1.0, 1 / (1 + lam)) for lam in (0.0, 0.1, 1.0)]
    assert advise(collect_options([*records, ending("mixed", 10.0, float("nan"), 0.0)]), Allowance(0.02)).hints == ()


def test_a_rival_with_a_better_aux_is_decided_by_its_main():
    """The rival's main may be within the allowance: more seeds must tell that, its aux is clear."""
    rival = [ending("mixed", 0.3, main, 2.0 + 0.01 * seed, seed) for seed, main in enumerate((1.0, 1.03, 1.06))]
    found = verdict([*two_methods([4, 4.1, 4.2], [8, 8.1, 8.2]), *rival])
    assert found.startswith("Undecided")
    assert seeds_needed(found) > 3
