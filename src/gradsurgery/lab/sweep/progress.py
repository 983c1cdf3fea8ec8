"""The progress of a sweep on a console: a live bar on a terminal, plain lines elsewhere."""

import os
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gradsurgery.lab.lam import named_numbers
from gradsurgery.lab.objective import Objective
from gradsurgery.lab.run import Metrics, RunSpec
from gradsurgery.lab.sweep.events import Advanced, Done, Event, Failed, Planned, Printed, Stopped, Warned


def describe(run: RunSpec) -> str:
    """Method, λ, ρ and seed of a run, for one line."""
    parts = [run.method]
    parts += [f"{name}={value:.3g}" for name, value in named_numbers(run.lam)]
    parts += [f"ρ={run.rho:.3g}"] if run.rho is not None else []
    return " ".join([*parts, f"seed {run.seed}"])


def format_losses(metrics: Metrics) -> str:
    """The losses of a row, main first: on training data, or else on held-out data; empty if it has none."""
    for split, note in (("train", ""), ("test", " (test)")):
        names = [name for name in metrics if name.endswith(f"_{split}") and Objective(name).is_loss]
        if names:
            names.sort(key=lambda name: not name.startswith("main"))
            return ", ".join(f"{Objective(name).name} {metrics[name]:.4g}" for name in names) + note
    return ""


class ProgressBar:
    """Shows the events of a sweep on a console; a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        self._runs = self._finished = 0
        self._fractions: dict[str, float] = {}  # of the runs in training
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[losses]}", style="dim", markup=False),
            TimeRemainingColumn(),
            console=console,
            disable=not self._live,
        )
        self._task = self._bar.add_task("starting", total=None, losses="")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        match event:
            case Planned(runs):  # an adaptive sweep has several stages
                self._bar.start()
                self._runs += runs
                self._bar.update(self._task, total=self._runs)
            case Warned(sentence):
                self._print(f"warning: {sentence}")
            case Advanced(run, fraction, metrics):
                self._fractions[run.key] = fraction
                self._bar.update(self._task, description=describe(run), losses=format_losses(metrics))
                self._move()
            case Done(run, metrics, trained):
                self._finish(run, format_losses(metrics) + ("" if trained else " (in the store)"))
            case Printed(run, line):
                self._print(f"{describe(run)} | {line}")
            case Stopped(run, reason):
                self._finish(run, f"stopped ({reason})")
            case Failed(run, reason, log):
                first_line = reason.strip().partition("\n")[0]
                where = f"; see {os.path.relpath(log)}" if log else ""
                self._finish(run, f"failed ({first_line}{where})", has_line=True)

    def _finish(self, run: RunSpec, outcome: str, has_line: bool = False) -> None:
        self._finished += 1
        self._fractions.pop(run.key, None)
        self._move()
        if has_line or not self._live:
            self._print(f"[{self._finished}/{self._runs}] {describe(run)}: {outcome}")

    def _move(self) -> None:
        self._bar.update(self._task, completed=self._finished + sum(self._fractions.values()))

    def _print(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)
