"""Train the runs of claims that are not stored yet: one sweep for each problem and its settings."""

import json
from collections.abc import Sequence
from pathlib import Path

from gradsurgery.lab import Problem, RunRecord, RunSpec
from gradsurgery.lab.sweep.events import Listener, Planned
from gradsurgery.lab.sweep.resources import Resources
from gradsurgery.lab.sweep.train import train_grid
from gradsurgery.paper.claims.claim import Claim


def train_claims(
    claims: Sequence[Claim],
    scale: str,
    *,
    folder: Path,
    listener: Listener,
    workers: int | None,
    data_dir: Path | None,
    checkpoint_every: float,
) -> list[RunRecord]:
    """Train what is missing, and return the records of all runs of the claims, done or failed.

    A run that several claims need is trained once. Runs that measure time are trained one after the other.
    """
    records = []
    sweeps = _sweeps(claims, scale)
    listener(Planned(sum(len(runs) for _, runs, _ in sweeps)))  # all at once: the bar shows the time left for all
    for problem, runs, timed in sweeps:
        records += train_grid(
            problem,
            runs,
            folder=folder,
            listener=lambda event: None if isinstance(event, Planned) else listener(event),
            resources=Resources(workers=1 if timed and workers != 0 else workers),
            data_dir=data_dir,
            checkpoint_every=checkpoint_every,
        )
    return records


def _sweeps(claims: Sequence[Claim], scale: str) -> list[tuple[Problem, list[RunSpec], bool]]:
    """The runs of all claims, divided by problem and settings."""
    by_settings: dict[tuple[str, str], tuple[Problem, dict[str, RunSpec], bool]] = {}
    for claim in claims:
        for run in claim.runs(scale):
            key = run.problem, json.dumps(run.settings, sort_keys=True)
            by_settings.setdefault(key, (claim.declared, {}, claim.timed))[1].setdefault(run.key, run)
    return [(problem, list(runs.values()), timed) for problem, runs, timed in by_settings.values()]
