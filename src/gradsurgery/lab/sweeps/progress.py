"""How a sweep is coming along, for people to watch: a live bar on a terminal, plain lines elsewhere."""

from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gradsurgery.lab.run import Metrics, RunSpec


def name(run: RunSpec) -> str:
    """A run in a few words."""
    parts = [run.method]
    parts += [f"λ={run.lam:.3g}"] if run.lam is not None else []
    parts += [f"ρ={run.rho:.3g}"] if run.rho is not None else []
    return " ".join([*parts, f"seed {run.seed}"])


def losses(metrics: Metrics) -> str:
    """The losses of a row, as far as it has them."""
    shown = [f"{key} {metrics[f'{key}_train']:.4g}" for key in ("main", "aux") if f"{key}_train" in metrics]
    return ", ".join(shown)


class Watch:
    """Shows a sweep on a console; a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        self._runs = self._done = 0
        self._shares: dict[str, float] = {}  # of the runs under way
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[losses]}", style="dim"),
            TimeRemainingColumn(),
            console=console,
            disable=not self._live,
        )
        self._task = self._bar.add_task("starting", total=None, losses="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, runs: int) -> None:
        """Start counting."""
        self._runs = runs
        self._bar.update(self._task, total=runs)

    def training(self, run: RunSpec, share: float, metrics: Metrics) -> None:
        """Move the bar within a run."""
        self._shares[run.key] = share
        self._bar.update(self._task, completed=self._completed, description=name(run), losses=losses(metrics))

    def done(self, run: RunSpec, metrics: Metrics, trained: bool) -> None:
        """Count a run, and without a terminal say so."""
        self._done += 1
        self._shares.pop(run.key, None)
        self._bar.update(self._task, completed=self._completed)
        if not self._live:
            known = "" if trained else " (in the store)"
            line = f"[{self._done}/{self._runs}] {name(run)}: {losses(metrics)}{known}"
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    @property
    def _completed(self) -> float:
        return self._done + sum(self._shares.values())
