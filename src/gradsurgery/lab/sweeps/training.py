"""Train runs one by one: claim a run in the store, train it to its end, record every row."""

import shutil
import time
from collections.abc import Generator, Sequence

from gradsurgery.lab.declaration import Problem, Task
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.run import Metrics, RunSpec
from gradsurgery.lab.store import Store, StoreError
from gradsurgery.lab.sweeps.environment import environment
from gradsurgery.lab.sweeps.events import Advanced, Done, Event, Failed
from gradsurgery.lab.sweeps.options import TrainingOptions
from gradsurgery.lab.sweeps.recording import is_resumed, make_run, outcome, record_start, run_folder, train
from gradsurgery.lab.train.multihost import broadcast_from_leader, is_leader

_POLL_SECONDS = 0.5


def train_runs(problem: Problem, runs: Sequence[RunSpec], store: Store, options: TrainingOptions) -> Generator[Event]:
    """Train all runs that are neither done nor failed. A run that another process trains is waited for.

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
                except (Exception, SystemExit) as error:  # sys.exit(0) would end a worker as if it had trained all
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


def _train_run(task: Task, spec: RunSpec, store: Store, options: TrainingOptions) -> Generator[Event]:
    """Train one run, from where an interrupted attempt saved it, or from the start."""
    started = time.monotonic()
    record_start(spec, store, options, environment(task, options.cores))
    folder = run_folder(spec, options)
    folder.mkdir(parents=True, exist_ok=True)
    run = make_run(spec, folder, options, flush=store.flush_to_disk)
    record = store.get(spec.key)
    row: Metrics = record.final if record else {}
    fresh = not is_resumed(folder)
    (may_be_over,) = broadcast_from_leader(bool(row) and not fresh)
    for count, row in enumerate(train(task, run, may_be_over=may_be_over)):
        store.log(spec.key, row, first=fresh and count == 0)
        yield Advanced(spec, run.progress, row)
    store.finish(spec.key, seconds=time.monotonic() - started, **outcome(run))
    if is_leader():
        shutil.rmtree(folder, ignore_errors=True)
    yield Done(spec, row)
