"""The progress of a sweep on a terminal and in a log."""

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.sweep.events import Advanced, Done, Failed, Planned, Printed, Stopped, Warned
from gradsurgery.lab.sweep.progress import ProgressBar

RUN = RunSpec("toy", "demo", "[/x]", lam=0.5, rho=None, seed=3)
ROW = {"step": 4, "main_train": 0.25, "aux_train": 2.0}


def show(terminal):
    """Everything that a bar prints for four runs: stored, trained, failed and stopped."""
    console = Console(file=StringIO(), force_terminal=terminal, width=200)
    with ProgressBar(console) as bar:
        bar(Planned(4))
        bar(Warned("beware of [/b]"))
        bar(Done(replace(RUN, seed=1), ROW, trained=False))
        bar(Advanced(RUN, 0.5, ROW))
        bar(Printed(RUN, "[/epoch] 1"))
        bar(Done(RUN, ROW))
        bar(Failed(replace(RUN, seed=2), "ValueError: [/no]\nin line 2", Path("runs/logs/a.log").absolute()))
        bar(Stopped(replace(RUN, seed=4), "too far"))
    return console.file.getvalue()


def test_a_log_has_a_line_for_each_run():
    assert show(terminal=False).splitlines() == [
        "warning: beware of [/b]",
        "[1/4] [/x] λ=0.5 seed 1: main 0.25, aux 2 (in the store)",
        "[/x] λ=0.5 seed 3 | [/epoch] 1",
        "[2/4] [/x] λ=0.5 seed 3: main 0.25, aux 2",
        "[3/4] [/x] λ=0.5 seed 2: failed (ValueError: [/no]; see runs/logs/a.log)",
        "[4/4] [/x] λ=0.5 seed 4: stopped (too far)",
    ]


def test_a_terminal_has_a_bar_and_lines_for_warnings_and_failures():
    printed = show(terminal=True)
    assert "4/4" in printed
    assert "[/x] λ=0.5 seed 3 | [/epoch] 1" in printed
    assert "[/x] λ=0.5 seed 3" in printed
    assert "warning: beware of [/b]" in printed
    assert "failed (ValueError: [/no]; see runs/logs/a.log)" in printed
    assert "(in the store)" not in printed


@pytest.mark.parametrize("reason", ["", "\n"])
def test_an_empty_reason_is_no_error(reason):
    bar = ProgressBar(Console(file=StringIO()))
    bar(Failed(RUN, reason))


def test_a_run_without_training_losses_shows_those_on_held_out_data():
    console = Console(file=StringIO())
    bar = ProgressBar(console)
    bar(Done(RUN, {"step": 4, "aux_test": 2.0, "main_test": 0.25, "accuracy_test": 0.9}))
    assert console.file.getvalue() == "[1/0] [/x] λ=0.5 seed 3: main 0.25, aux 2 (test)\n"
