"""What a store holds: how many runs of each problem are done, in training, failed, and how long the rest takes."""

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

from gradsurgery.lab.run import RunRecord
from gradsurgery.lab.store.lease import is_leased
from gradsurgery.lab.store.plan import read_plans
from gradsurgery.lab.store.select import open_store
from gradsurgery.lab.store.store import Store


@dataclass(frozen=True)
class Status:
    """The runs of one problem at one scale."""

    problem: str
    scale: str
    counts: Counter[str]
    """The number of runs that are ``done``, in training (``running``), planned by a sweep in progress (``waiting``),
    left by a sweep that has ended (``interrupted``), ``failed`` or ``stopped`` early."""
    seconds: float | None
    """The mean time of a finished run; None if there is none."""

    @property
    def seconds_left(self) -> float | None:
        """The time until the sweeps in progress end, with as many runs at once as now; None if that is not known."""
        running = self.counts["running"]
        if self.seconds is None or not running:
            return None
        return self.seconds * (self.counts["waiting"] + running / 2) / running  # a running one is half done on average


def read_status(folder: Path) -> list[Status]:
    """The status of every problem and scale in the store of this folder."""
    with Store(folder / "store.sqlite") as store:
        plans = [] if store.is_read_only else read_plans(store.path)
        if not plans:  # a sweep that has just begun has no store yet
            open_store(folder).close()
        records = store.select(status=None)
        sweeps: dict[tuple[str, str], dict[str, RunRecord | None]] = {}
        for plan in plans:
            sweeps.setdefault((plan.problem, plan.scale), {}).update(dict.fromkeys(plan.keys))
        planned = {key for plan in plans for key in plan.keys}
        for record in records:
            sweeps.setdefault((record.spec.problem, record.spec.scale), {})[record.spec.key] = record

        def state(key: str, record: RunRecord | None) -> str:
            if record and record.status != "running":
                return record.status
            if not store.is_read_only and is_leased(store.path, key):  # no process can lease a run of a read-only store
                return "running"
            return "waiting" if key in planned else "interrupted"

        return [
            Status(*name, Counter(starmap(state, runs.items())), mean_seconds(filter(None, runs.values())))
            for name, runs in sorted(sweeps.items())
        ]


def mean_seconds(records: Iterable[RunRecord]) -> float | None:
    """The mean time of the finished runs; None if none has recorded it."""
    seconds = [record.info.get("seconds") for record in records if record.status == "done"]
    known = [value for value in seconds if isinstance(value, int | float)]
    return statistics.fmean(known) if known else None
