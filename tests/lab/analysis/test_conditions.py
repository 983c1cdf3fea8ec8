"""Runs that were trained with different settings, versions or hardware are pointed out."""

from dataclasses import replace

from gradsurgery.lab.analysis.conditions import condition_values, condition_warnings, differing_settings
from tests.lab.analysis.synthetic_runs import run


def trained_with(seed=0, status="done", **info):
    record = run(seed=seed, status=status)
    return replace(record, info={**record.info, **info})


def test_the_same_conditions_need_no_warning():
    assert condition_warnings([trained_with(seed, cores=2, device="cpu") for seed in range(3)]) == []


def test_the_settings_in_which_runs_differ_are_named():
    assert differing_settings([run(), run(steps=30, seed=1)]) == ["steps"]


def test_different_conditions_are_named_with_their_values():
    records = [trained_with(0, cores=1, device="cpu"), trained_with(1, cores=2, device="cpu", jax="0.7.0")]
    assert condition_warnings(records) == [
        "These runs were trained under different conditions, compare with care: jax (0.6.2, 0.7.0); cores (1, 2)."
    ]


def test_a_condition_that_only_some_runs_recorded_differs():
    [sentence] = condition_warnings([trained_with(0), trained_with(1, cores=1)])
    assert sentence.endswith("cores (not recorded, 1).")


def test_long_lists_of_values_are_shortened():
    [sentence] = condition_warnings([trained_with(seed, commit=f"c{seed}") for seed in range(9)])
    assert sentence.endswith("commit (c0, c1, c2, c3, … 9 values).")


def test_long_values_are_shortened():
    [sentence] = condition_warnings([trained_with(0, commit="a" * 40), trained_with(1, commit="b" * 40)])
    assert sentence.endswith(f"commit ({'a' * 16}…, {'b' * 16}…).")


def test_times_samples_and_reasons_are_not_conditions():
    records = [trained_with(seed, seconds=seed / 3, samples=f"[{seed}]", reason=f"{seed}") for seed in range(2)]
    assert condition_warnings(records) == []
    assert condition_values(records)["Versions and hardware"].keys().isdisjoint({"seconds", "samples", "reason"})


def test_runs_without_a_result_do_not_count():
    assert condition_warnings([trained_with(0), trained_with(1, status="failed", cores=1)]) == []


def test_every_value_is_listed():
    values = condition_values([trained_with(0, device="cpu"), trained_with(1, device="gpu")])
    assert values["Versions and hardware"]["device"] == ["cpu", "gpu"]
    assert values["Settings"]["batch_size"] == ["128"]
