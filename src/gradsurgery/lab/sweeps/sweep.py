"""Sweeps: the runs of a grid, each trained once, however often a sweep is started, killed, or run beside another."""

import functools
import json
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import jax

from gradsurgery.lab.problem import Problem, Task
from gradsurgery.lab.run import Metrics, RunRecord, RunSpec, Setting
from gradsurgery.lab.store.sqlite import StoreError
from gradsurgery.lab.store.store import Store
from gradsurgery.lab.train.checkpoint import Checkpoint
from gradsurgery.lab.train.multihost import broadcast_from_leader


class Watcher(Protocol):
    """Whoever wants to know how a sweep is coming along."""

    def begin(self, runs: int) -> None:
        """So many runs are asked for."""

    def training(self, run: RunSpec, share: float, metrics: Metrics) -> None:
        """This run has come so far."""

    def done(self, run: RunSpec, metrics: Metrics, trained: bool) -> None:
        """This run has ended, now or in an earlier sweep."""


def sweep(
    problem: Problem,
    runs: Sequence[RunSpec],
    store: Store,
    *,
    folder: Path,
    watcher: Watcher,
    data_dir: Path | None = None,
    checkpoint_every: float = 60.0,
    clock: Callable[[], float] = time.monotonic,
) -> list[RunRecord]:
    """Train what is not in the store yet, and return all that was asked for.

    Args:
        problem: the problem that all runs are of.
        runs: the grid, all at the same settings.
        store: where runs are kept.
        folder: where checkpoints go.
        watcher: told of every step on the way.
        data_dir: a folder that stands in for the hub.
        checkpoint_every: seconds between two checkpoints of a run.
        clock: the time in seconds, for that.
    """
    watcher.begin(len(runs))
    waiting = list(runs)
    task: Task | None = None
    while waiting:
        busy = []
        for run in waiting:
            with store.claim(run.key) as mine:
                record = store.get(run.key)
                done, mine = broadcast_from_leader(record is not None and record.status == "done", mine)
                if done:
                    watcher.done(run, record.final if record else {}, trained=False)
                    continue
                if not mine:  # another sweep is at it
                    busy.append(run)
                    continue
                task = task or problem.build(run.settings, data_dir)
                final = train(task, run, store, folder, watcher, checkpoint_every, clock)
                watcher.done(run, final, trained=True)
        if len(busy) == len(waiting):
            time.sleep(0.5)
        waiting = busy
    return [record for record in (store.get(run.key) for run in runs) if record is not None]


def train(
    task: Task,
    run: RunSpec,
    store: Store,
    folder: Path,
    watcher: Watcher,
    checkpoint_every: float,
    clock: Callable[[], float],
) -> Metrics:
    """Take one run from its last checkpoint, or its start, to its end; returns its last row."""
    started = saved = clock()
    store.begin(run, about())
    checkpoint = Checkpoint(folder / "checkpoints" / run.key)
    state, rows = task.start(run)
    chunks, state = checkpoint.restore(state) or (0, state)
    try:
        while True:
            for row in rows:
                store.log(run.key, row)
            if rows:
                watcher.training(run, chunks / task.chunks, rows[-1])
            if chunks == task.chunks:
                break
            (due,) = broadcast_from_leader(clock() - saved >= checkpoint_every)
            if due:
                store.secure()  # a power cut must not leave a checkpoint that is ahead of its rows
                checkpoint.save(chunks, state)
                saved = clock()
            state, rows = task.advance(run, state, chunks)
            chunks += 1
        end = task.final_metrics(state)
        final = {**rows[-1], **end.metrics}
        store.log(run.key, final)
    except Exception as error:
        with suppress(StoreError):  # if it is the store that fails, the run stays as it is there
            store.fail(run.key, f"{type(error).__name__}: {error}")
        raise
    samples = {"samples": json.dumps([asdict(sample) for sample in end.samples])} if end.samples else {}
    store.finish(run.key, seconds=clock() - started, **samples)
    checkpoint.clear()
    return final


@functools.cache
def about() -> dict[str, Setting]:
    """What a run is made with, for the record: versions, commit, device."""
    packages = ("gradsurgery", "jax", "optax", "flax", "numpy", "datasets", "tokenizers")
    found: dict[str, Setting] = {name: version(name) for name in packages}
    commit = subprocess.run(
        ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        **found,
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
        "device": jax.devices()[0].device_kind,
    }
