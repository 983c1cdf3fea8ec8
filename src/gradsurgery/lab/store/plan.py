"""The plan of a sweep in progress: which runs it trains, so that ``gradsurgery status`` knows how many are left.

A plan is a file in the folder of leases, and a lease of the same name tells whether its sweep is still there.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from gradsurgery.lab.atomic import write_atomically
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.store.lease import lease, lease_folder
from gradsurgery.lab.store.store import Store


@dataclass(frozen=True)
class Plan:
    """The runs that a sweep in progress had to train when it began; of one problem at one scale."""

    problem: str
    scale: str
    keys: tuple[str, ...]


@contextmanager
def announce(store: Store, runs: Sequence[RunSpec]) -> Iterator[None]:
    """Announce until the block ends that these runs, all of one problem and scale, are to be trained."""
    if not runs:
        yield
        return
    read_plans(store.path)  # removes what killed sweeps have left
    name = f"plan-{uuid4().hex}"
    path = lease_folder(store.path) / f"{name}.json"
    with store.lease(name):
        plan = Plan(runs[0].problem, runs[0].scale, tuple(run.key for run in runs))
        write_atomically(path, json.dumps(vars(plan)).encode())
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def read_plans(store: Path) -> list[Plan]:
    """The plans of all sweeps in progress on this machine. Plans of sweeps that were killed are removed."""
    plans = []
    for lock in lease_folder(store).glob("plan-*.lock"):
        path = lock.with_suffix(".json")
        with suppress(FileNotFoundError), lease(store, lock.stem) as is_over:
            if is_over:
                path.unlink(missing_ok=True)
            else:
                stored = json.loads(path.read_bytes())
                plans.append(Plan(stored["problem"], stored["scale"], tuple(stored["keys"])))
    return plans
