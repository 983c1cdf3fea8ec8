"""``gradsurgery sweep --dry-run``: what a sweep would train, and how much of it is stored."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from gradsurgery.lab.lam import has_weight, lam_names
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.store import Store
from gradsurgery.lab.store.status import mean_seconds
from gradsurgery.lab.text import count, describe_runs, duration


def print_plan(runs: Sequence[RunSpec], max_lams: int | None, folder: Path, console: Console) -> None:
    """Print the runs of a grid that are to be trained. Creates nothing.

    For an adaptive grid, ``max_lams`` is the largest number of λ per method.
    """
    with Store(folder / "store.sqlite") as store:
        stored = store.select(runs[0].problem, runs[0].scale, status=None)
    ended = {record.spec.key for record in stored if record.status not in ("running", "failed")}
    missing = [run for run in runs if run.key not in ended]
    for line in describe_runs(missing):
        console.print(f"  {line}", soft_wrap=True)
    if max_lams is not None:
        name = lam_names(run.lam for run in runs if has_weight(run.lam))
        console.print(f"  then more {name} where the fronts have gaps, up to {max_lams} per method", soft_wrap=True)
    total = f"{count(len(runs), 'run')}: {len(runs) - len(missing)} stored, {len(missing)} to train"
    seconds = mean_seconds(stored)
    if missing and seconds is not None:
        total += f", about {duration(seconds * len(missing))} of training at {duration(seconds)} a run"
    console.print(total, soft_wrap=True)
