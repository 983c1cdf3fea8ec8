"""Train runs one by one: claim a run in the store, take it from its last checkpoint to its end, record every row."""

import json
import time
from collections.abc import Generator, Sequence
from dataclasses import asdict

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.problem import Problem, Task
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.store import Store, StoreError
from gradsurgery.lab.sweeps.environment import environment
from gradsurgery.lab.sweeps.events import Advanced, Done, Event, Failed
from gradsurgery.lab.sweeps.options import TrainingOptions
from gradsurgery.lab.train.checkpoint import Checkpoint
from gradsurgery.lab.train.multihost import broadcast_from_leader

_POLL_SECONDS = 0.5


def train_runs(problem: Problem, runs: Sequence[RunSpec], store: Store, options: TrainingOptions) -> Generator[Event]:
    """Train all runs that are neither done nor failed. Skip a run that another process is training, then wait for it.

    Args:
        problem: the problem of all runs.
        runs: all with the same settings.
        store: claims and records runs. It is not touched if the problem cannot be built.
        options: see ``TrainingOptions``.

    Yields:
        Events of the runs that are trained here.
    """
    task: Task | None = None
    pending = list(runs)
    while pending:
        busy = []
        for run in pending:
            if _has_ended(run, store):
                continue
            task = task or problem.build(run.settings, options.data_dir)
            with store.claim(run.key) as claimed:
                (claimed,) = broadcast_from_leader(claimed)
                if not claimed:
                    busy.append(run)
                    continue
                if _has_ended(run, store):  # another process may have trained it in the meantime
                    continue
                try:
                    yield from _train_run(task, run, store, options)
                except StoreError:
                    raise
                except Exception as error:
                    reason = f"{type(error).__name__}: {error}"
                    store.fail(run.key, reason)
                    if options.raise_errors or isinstance(error, UserError):
                        raise
                    yield Failed(run, reason)
        if len(busy) == len(pending):
            time.sleep(_POLL_SECONDS)
        pending = busy


def _has_ended(run: RunSpec, store: Store) -> bool:
    """True if the run is done or has failed, according to the leader's store."""
    record = store.get(run.key)
    (ended,) = broadcast_from_leader(record is not None and record.status != "running")
    return ended


def _train_run(task: Task, run: RunSpec, store: Store, options: TrainingOptions) -> Generator[Event]:
    """Train one run from its last checkpoint, or from the start."""
    started = saved = time.monotonic()
    interrupted = store.get(run.key)
    store.begin(run, environment(options.cores))
    checkpoint = Checkpoint(options.folder / "checkpoints" / run.key)
    state, rows = task.start(run)
    chunks = 0
    if restored := checkpoint.restore(state):
        chunks, state = restored
        before = interrupted.info.get("cores", "unknown") if interrupted else options.cores
        if before != options.cores:
            store.begin(run, {"cores": f"{before}, then {options.cores}"})
    while True:
        for row in rows:
            store.log(run.key, row)
        if rows:
            yield Advanced(run, chunks / task.chunks, rows[-1])
        if chunks == task.chunks:
            break
        (due,) = broadcast_from_leader(time.monotonic() - saved >= options.checkpoint_every)
        if due:
            store.flush_to_disk()  # after a power cut, a checkpoint must not be ahead of its rows
            checkpoint.save(chunks, state)
            saved = time.monotonic()
        state, rows = task.advance(run, state, chunks)
        chunks += 1
    outcome = task.final_metrics(state)
    final = {**rows[-1], **outcome.metrics}
    store.log(run.key, final)
    samples = {"samples": json.dumps([asdict(sample) for sample in outcome.samples])} if outcome.samples else {}
    store.finish(run.key, seconds=time.monotonic() - started, **samples)
    checkpoint.clear()
    yield Done(run, final)
