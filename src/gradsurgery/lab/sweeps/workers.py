"""A sweep by several processes at once: each claims runs in the store that they share, so that none is trained twice.

A small network does not keep two cores busy, two of them do. Workers start at different places of the grid, so that
each compiles only some of its methods.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import jax

from gradsurgery.lab.problem import Problem
from gradsurgery.lab.run import Metrics, RunRecord, RunSpec
from gradsurgery.lab.store.store import Store
from gradsurgery.lab.sweeps.sweep import Watcher, sweep

Train = Callable[..., list[RunRecord]]
"""``sweep``, with all but the runs, the store and the watcher filled in."""


def cores() -> list[int]:
    """The processor's cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def useful_workers() -> int:
    """One a core; one in all where there is an accelerator, which is not shared, or where processes train together."""
    return len(cores()) if jax.default_backend() == "cpu" and jax.process_count() == 1 else 1


def sweep_together(
    problem: Problem,
    runs: Sequence[RunSpec],
    store: Store,
    *,
    folder: Path,
    watcher: Watcher,
    workers: int,
    data_dir: Path | None = None,
    checkpoint_every: float = 60.0,
) -> list[RunRecord]:
    """As ``sweep``, by so many workers, each with its share of the cores; they end with this process."""
    known = {run.key: store.get(run.key) for run in runs}
    missing = [run for run in runs if (record := known[run.key]) is None or record.status != "done"]
    workers = min(workers, len(missing))
    train = partial(sweep, problem, folder=folder, data_dir=data_dir, checkpoint_every=checkpoint_every)
    if workers <= 1:
        return train(runs, store, watcher=watcher)

    watcher.begin(len(runs))
    unseen = {run.key: run for run in runs}
    for key, record in known.items():
        if record is not None and record.status == "done":
            watcher.done(unseen.pop(key), record.final, trained=False)
    for call, run, *rest in _calls(train, missing, store.path, workers):
        if call == "done":
            unseen.pop(run.key, None)
        getattr(watcher, call)(run, *rest)
    records = [record for record in (store.get(run.key) for run in runs) if record is not None]
    for record in records:
        if record.spec.key in unseen:  # trained meanwhile by another sweep
            watcher.done(record.spec, record.final, trained=False)
    return records


def _calls(train: Train, runs: Sequence[RunSpec], path: Path, workers: int) -> Iterator[Sequence[Any]]:
    """What workers have to say, as calls of a watcher, until the last of them is done."""
    context = multiprocessing.get_context("spawn")  # jax does not survive a fork
    ends: dict[Any, BaseProcess] = {}
    try:
        for index in range(workers):
            first = index * len(runs) // workers
            end, other = context.Pipe(duplex=False)
            ends[end] = context.Process(
                target=_work, args=(other, train, [*runs[first:], *runs[:first]], path, cores()[index::workers])
            )
            ends[end].start()
            other.close()
        while ends:
            for end in ends.keys() & wait(list(ends)):
                try:
                    said = end.recv()
                except EOFError:
                    process = ends.pop(end)
                    process.join()
                    if process.exitcode:
                        raise OSError(
                            f"a worker was ended by something else ({process.exitcode}): start again"
                        ) from None
                    continue
                if isinstance(said, Exception):
                    raise said
                yield said
    finally:
        for process in ends.values():
            process.terminate()  # what it was at goes on from its checkpoint
        for process in ends.values():
            process.join()


class _Messenger:
    """Watches a worker's sweep and tells the process that began it."""

    def __init__(self, end: Connection) -> None:
        self._end = end

    def begin(self, runs: int) -> None:
        """Whoever began the workers knows."""

    def training(self, run: RunSpec, share: float, metrics: Metrics) -> None:
        self._end.send(("training", run, share, metrics))

    def done(self, run: RunSpec, metrics: Metrics, trained: bool) -> None:
        if trained:  # else another worker has said so
            self._end.send(("done", run, metrics, trained))


def _work(end: Connection, train: Train, runs: Sequence[RunSpec], path: Path, own: Sequence[int]) -> None:
    end_with_parent()
    if own and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, own)  # before jax counts the cores: two pools of threads on all would be in the way
    try:
        with Store(path) as store:
            train(runs, store, watcher=_Messenger(end))
    except Exception as error:
        end.send(error)


def end_with_parent() -> None:
    """End this process, a worker, with the one that began it, and not by a Ctrl-C, which is meant for that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_wait_and_end, daemon=True).start()


def _wait_and_end() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # it was killed, so nobody waits for what we do
