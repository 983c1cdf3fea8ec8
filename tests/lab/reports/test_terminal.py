"""The summary in the terminal names runs without a result."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from gradsurgery.lab.reports.terminal import print_recommendations, print_summary
from tests.lab.analysis.synthetic_runs import ending, run, sweep


def summary_lines(records):
    console = Console(file=StringIO(), width=100)
    print_summary(records, console)
    return console.file.getvalue().splitlines()


def failed_run(reason, **options):
    record = run(status="failed", **options)
    return replace(record, info={**record.info, "reason": reason}, metrics=())


def test_a_clean_sweep_prints_the_table_alone():
    lines = summary_lines(sweep(methods={"mixed": None, "bloop": 0.01}))
    assert lines[0].split()[:6] == ["method", "hypervolume", "lead", "over", "mixed", "(test)"]
    assert [line.split()[0] for line in lines[1:]] == ["bloop", "mixed"]


def test_diverged_runs_are_counted_below_the_table():
    lines = summary_lines(sweep())
    assert lines[-1] == ("1 of 60 runs diverged: the final losses are not finite. The first is pcgrad, λ = 10, seed 1.")


def test_a_sweep_in_which_every_run_diverged_prints_one_sentence_and_no_table():
    lines = summary_lines([run(seed=seed, diverged=True) for seed in range(3)])
    assert lines == ["All 3 runs diverged: the final losses are not finite. A lower learning rate may help."]


def test_failed_runs_come_with_the_reason_of_the_first():
    lines = summary_lines(
        [*sweep(seeds=1), failed_run("ValueError: no data\nat all", seed=7), failed_run("later", seed=8)]
    )
    assert lines[-1] == "2 of 22 runs failed. The first is bloop, λ = 0.1, seed 7: ValueError: no data at all"


def test_unfinished_runs_are_counted_once():
    records = [ending("mixed", lam, 1.0, 9.0 - lam, seed) for lam in (0.0, 0.1) for seed in (0, 1)]
    running = replace(ending("mixed", 1.0, 1.0, 1.0), status="running")
    lines = recommendation_lines([*records, running])
    assert lines[-3] == "Provisional: 2 runs are still to come."
    assert "still to come" not in " ".join(summary_lines([*records, running]))
    assert recommendation_lines([run(status="running")]) == ["1 run is unfinished or missing."]


@pytest.mark.parametrize("name", ["[/x]", "[bold]loud[/bold]", "[link=file:///etc/passwd]x"])
def test_stored_text_is_not_parsed_as_markup(name):
    strange = [replace(record, spec=replace(record.spec, method=name)) for record in sweep(methods={"mixed": None})]
    strange += sweep(methods={"bloop": 0.01})
    lines = summary_lines([*strange, failed_run(f"reason {name}", method=name, seed=9)])
    assert any(line.strip().startswith(name) for line in lines)
    assert lines[-1].endswith(f"The first is {name}, λ = 0.1, seed 9: reason {name}")


def test_a_run_without_losses_neither_diverged_nor_has_a_table():
    assert summary_lines([replace(run(), metrics=({"step": 0.0, "distance": 1.0},))]) == []
    assert summary_lines([replace(run(), metrics=())]) == []


def recommendation_lines(records):
    console = Console(file=StringIO(), width=200)
    print_recommendations(records, console)
    return console.file.getvalue().splitlines()


def test_recommendations_end_with_the_verdict_and_the_code():
    points = [("mixed", 0.0, 10.0), ("mixed", 0.1, 9.0), ("bloop", 0.1, 5.0)]
    lines = recommendation_lines(
        [ending(method, lam, 1.0, aux + 0.1 * seed, seed) for method, lam, aux in points for seed in (0, 1, 2)]
    )
    assert lines[0] == "If main may be 2 % worse than main alone (training losses):"
    assert lines[1].startswith("  bloop, λ = 0.1: main +0.0 % [+0.0, +0.0], aux −49.5 % [−50.7, −48.3]")
    assert lines[-3].startswith("bloop wins (its aux against mixed, λ = 0.1: −")
    assert lines[-2].startswith("Against main alone: main +0.0 % [+0.0, +0.0], aux −49.5 % [−50.7, −48.3] (3 seeds")
    assert lines[-1] == "gs.bloop(lam=0.1)"


def test_a_sweep_that_lowers_no_aux_says_so():
    lines = recommendation_lines([ending("mixed", lam, 1.0, 1.0 + lam) for lam in (0.0, 0.1)])
    assert lines[-2:] == [
        "  No λ improves aux: does the method get the right loss?",
        "Train on main alone: no λ improves aux if main may be 2 % worse.",
    ]


def test_a_sweep_without_main_alone_prints_no_recommendation():
    assert recommendation_lines([run()]) == []


def test_main_alone_that_ends_at_0_says_why_there_is_no_recommendation():
    records = [ending("mixed", 0.0, 0.0, 1.0), ending("mixed", 0.1, 0.0, 1.0)]
    assert recommendation_lines(records) == [
        "No recommendation: main alone ends with main = 0, so the allowance must be a difference, such as 0.01."
    ]


def test_sentences_are_broken_between_words_on_a_terminal():
    console = Console(file=StringIO(), width=40, force_terminal=True, color_system=None)
    print_recommendations([ending("mixed", lam, 1.0, 9.0 - lam) for lam in (0.0, 0.1)], console)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert lines[:4] == [
        "If main may be 2 % worse than main alone",
        "(training losses):",
        "  mixed, λ = 0.1: main +0.0 %, aux −1.1",
        "  % (one seed: no verdict)",
    ]
    assert lines[-1] == "gs.mixed(lam=0.1)"
