"""Recommendations by metrics that the user names."""

from dataclasses import replace

import pytest

from gradsurgery.lab import UserError, recommend
from gradsurgery.lab.analysis import Allowance, advise, collect_options
from gradsurgery.lab.objective import judge_by, read_objectives, recorded_objectives
from tests.lab.analysis.synthetic_runs import ending

# accuracy falls as λ grows, while main's loss falls, too
ENDS = [
    ("mixed", 0.0, {"accuracy": 0.90, "bleu": 10.0, "main_train": 1.0, "aux_train": 5.0}),
    ("bloop", 0.1, {"accuracy": 0.89, "bleu": 20.0, "main_train": 0.9, "aux_train": 4.0}),
    ("bloop", 1.0, {"accuracy": 0.50, "bleu": 40.0, "main_train": 0.8, "aux_train": 3.0}),
    ("mixed", 0.1, {"accuracy": 0.91, "bleu": 15.0, "main_train": 9.0, "aux_train": 9.0}),
]


def runs(maximise=None, minimise=None, seeds=1, noise=0.0):
    objectives = read_objectives(maximise, minimise)
    records = [
        replace(
            ending(method, lam, 0.0, 0.0, seed),
            metrics=({"step": 1.0, **{name: value * (1 + noise * seed) for name, value in row.items()}},),
        )
        for method, lam, row in ENDS
        for seed in range(seeds)
    ]
    return judge_by(objectives, records)


def test_losses_are_limited_and_improved_by_default():
    assert recommend(runs())[0].lam == 1.0


def test_mains_metric_is_limited():
    bloop, mixed = recommend(runs(maximise={"main": "accuracy"}))
    assert bloop.text == "bloop, λ = 0.1: accuracy −1.1 %, aux −20.0 % (one seed: no verdict)"
    assert mixed.text == "mixed: no λ within the allowance improves aux (closest: λ = 0.1, aux +80.0 %)"
    assert recommend(runs(maximise={"main": "accuracy"}), allow=0.005, absolute=True)[0].lam is None
    assert recommend(runs(maximise={"main": "accuracy"}), allow=0.015, absolute=True)[0].lam == 0.1


def test_auxs_metric_is_improved():
    bloop, mixed = recommend(runs(maximise={"main": "accuracy", "aux": "bleu"}))
    assert bloop.text.startswith("bloop, λ = 0.1: accuracy −1.1 %, bleu +100.0 %")
    assert mixed.text.startswith("mixed, λ = 0.1: accuracy +1.1 %, bleu +50.0 %")
    assert recommend(runs(maximise={"aux": "bleu"}))[0].lam == 1.0  # main's loss falls


def test_a_metric_may_be_minimised():
    assert recommend(runs(minimise={"main": "accuracy"}), allow=0.0)[0].lam == 1.0


def test_more_is_better_in_the_verdict_too():
    records = runs(maximise={"main": "accuracy", "aux": "bleu"}, seeds=3, noise=0.01)
    advice = advise(collect_options(records), Allowance(0.02))
    assert advice.verdict.startswith("bloop wins (its bleu against mixed, λ = 0.1: +33.3 %")
    assert advice.options.criteria.data == "accuracy and bleu"


def test_the_seeds_that_a_maximised_metric_needs_are_counted_from_its_limit():
    records = runs(maximise={"main": "accuracy"}, seeds=2)
    main = collect_options(records).by_method["bloop"][0].main
    spread = replace(main, values={0: 0.86, 1: 0.90}, reference={0: 0.90, 1: 0.90})
    assert spread.excess().mean == pytest.approx(0.0225, abs=1e-3)
    assert spread.excess().low < 0.02 < spread.excess().high
    assert spread.seeds_within(0.2) == 3
    assert spread.seeds_within(0.03) > 20


def test_main_alone_with_the_highest_metric_is_the_reference():
    """Main alone is worse with rate 0.1: an accuracy of 0.8 is not lower than its 0.5, but lower than 0.9."""
    ends = [(0.1, "mixed", 0.0, 0.5), (0.1, "bloop", 0.3, 0.8), (0.3, "mixed", 0.0, 0.9)]
    records = [ending(method, lam, 0.0, 0.0) for _, method, lam, _ in ends]
    records = [
        replace(
            record,
            spec=replace(record.spec, settings={"rate": rate}),
            metrics=({"step": 1.0, "accuracy": accuracy, "aux_train": 1.0 - (record.spec.lam or 0.0)},),
        )
        for record, (rate, _, _, accuracy) in zip(records, ends, strict=True)
    ]
    (bloop,) = recommend(judge_by(read_objectives({"main": "accuracy"}, None), records))
    assert (
        bloop.text == "bloop: no λ keeps accuracy within the allowance (closest: λ = 0.3, rate = 0.1, accuracy −11.1 %)"
    )


def test_a_single_seed_is_never_certain():
    assert not recommend(runs(maximise={"main": "accuracy"}), allow=1.0)[0].certain


def test_a_metric_that_no_run_has_is_an_error():
    with pytest.raises(ValueError, match="a row of main alone with finite acuracy and aux_train; got none"):
        recommend(runs(maximise={"main": "acuracy"}))


def test_runs_that_name_different_metrics_are_not_mixed():
    records = [*runs(), *runs(maximise={"main": "accuracy"})]
    with pytest.raises(ValueError, match="same metrics; got maximise accuracy; the losses: name the problem"):
        recommend(records)


def test_the_declared_metrics_replace_the_recorded_ones():
    records = runs(maximise={"main": "accuracy"})
    assert recorded_objectives(judge_by(read_objectives(None, {"aux": "bleu"}), records)).keys() == {"aux"}


@pytest.mark.parametrize("maximise", ["accuracy", {"other": "accuracy"}, ["accuracy"]])
def test_the_message_shows_how_a_metric_is_named(maximise):
    with pytest.raises(TypeError, match='maximise must name the metric of "main", of "aux" or of both'):
        read_objectives(maximise, None)


def test_a_run_without_the_metric_is_pointed_out():
    records = runs(maximise={"main": "accuracy"})
    records[1] = replace(records[1], metrics=({"step": 1.0, "main_train": 0.9, "aux_train": 4.0},))
    hints = advise(collect_options(records), Allowance(0.02)).hints
    assert "Not compared: a finished run has no row with accuracy and aux_train." in hints


def test_training_and_held_out_losses_may_be_mixed():
    records = [
        replace(record, metrics=({**record.metrics[0], "main_test": 1.0, "aux_test": record.metrics[0]["aux_train"]},))
        for record in runs(minimise={"main": "main_train"})
    ]
    criteria = collect_options(records).criteria
    assert (criteria.main.metric, criteria.aux.metric) == ("main_train", "aux_test")
    assert criteria.data == "main loss, train and aux loss, test"


def test_an_allowance_that_permits_everything_has_a_verdict():
    records = runs(maximise={"main": "accuracy", "aux": "bleu"}, seeds=2, noise=0.01)
    assert advise(collect_options(records), Allowance(1.0)).verdict.startswith("bloop wins")


def test_main_has_one_metric():
    with pytest.raises(UserError, match="main must have one metric"):
        read_objectives({"main": "accuracy"}, {"main": "error"})
