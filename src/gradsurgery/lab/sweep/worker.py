"""Train runs one by one: lease a run in the store, train it to its end, record every row.

A run is in the store from its first row on. So a mistake that the training function finds while it loads its data
leaves nothing behind.
"""

import json
import shutil
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.method import make_method
from gradsurgery.lab.objective import objective_info
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.processes import broadcast_from_leader, is_leader
from gradsurgery.lab.run import Metrics, Run, RunSpec, Setting
from gradsurgery.lab.store import Store, StoreError
from gradsurgery.lab.sweep.environment import environment
from gradsurgery.lab.sweep.events import Advanced, Done, Failed, RunEvent
from gradsurgery.method import Method

_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class WorkerArguments:
    """What every process that trains runs of a sweep needs to know."""

    folder: Path
    """Checkpoints go below it."""
    data_dir: Path | None
    """A folder whose subfolders stand in for hub ids."""
    checkpoint_every: float
    """Seconds between two checkpoints of a run."""
    cores: int
    """The cores of each run, for its record."""
    methods: Mapping[str, type[Method]]
    """The user's methods, which each worker registers."""
    raise_errors: bool
    """True to raise what a run raises, False to continue with the next run. Both record the failure."""

    def run_folder(self, spec: RunSpec) -> Path:
        """The folder of a run, kept until the run is done."""
        return self.folder / "checkpoints" / spec.key


def train_runs(
    problem: Problem, runs: Sequence[RunSpec], store: Store, arguments: WorkerArguments
) -> Generator[RunEvent]:
    """Train all runs that are neither done nor failed. A run that another process trains is waited for.

    Args:
        problem: the problem of all runs.
        runs: all with the same settings.
        store: leases and records runs.
        arguments: see ``WorkerArguments``.

    Yields:
        Events of the runs that are trained here.
    """
    pending = list(runs)
    while pending:
        busy = []
        for run in pending:
            if _has_ended(run, store):
                continue
            with store.lease(run.key) as leased:
                (leased,) = broadcast_from_leader(leased)
                if not leased:
                    busy.append(run)
                elif not _has_ended(run, store):  # another process may have trained it in the meantime
                    yield from _train_run(problem, run, store, arguments)
        if len(busy) == len(pending):
            time.sleep(_POLL_SECONDS)
        pending = busy


def _has_ended(run: RunSpec, store: Store) -> bool:
    """True if the run is done or has failed, according to the leader's store."""
    record = store.get(run.key)
    (ended,) = broadcast_from_leader(record is not None and record.status != "running")
    return ended


def _train_run(problem: Problem, spec: RunSpec, store: Store, arguments: WorkerArguments) -> Generator[RunEvent]:
    """Train one run, and record it as failed if it raises."""
    recorded = False
    try:
        for event in _record_rows(problem, spec, store, arguments):
            recorded = True
            yield event
    except StoreError:
        raise
    except (Exception, SystemExit) as error:  # sys.exit(0) would end a worker as if it had trained all
        is_mistake = isinstance(error, UserError)
        reason = f"{type(error).__name__}: {error}"
        if recorded or not is_mistake:
            store.begin(spec, environment(arguments.cores))
            store.fail(spec.key, reason)
        if arguments.raise_errors or is_mistake:
            raise
        yield Failed(spec, reason)


def _record_rows(problem: Problem, spec: RunSpec, store: Store, arguments: WorkerArguments) -> Generator[RunEvent]:
    started = time.monotonic()
    folder = arguments.run_folder(spec)
    folder.mkdir(parents=True, exist_ok=True)
    resumed = is_resumed(folder)
    run = make_run(problem, spec, folder, arguments)
    run.flush = store.flush_to_disk
    record = store.get(spec.key)
    row: Metrics = record.final if record else {}
    (may_be_over,) = broadcast_from_leader(bool(row) and resumed)
    first = True
    for row in train(problem, run, may_be_over=may_be_over):
        if first:
            record_start(spec, store, environment(arguments.cores), resumed=resumed)
        store.log(spec.key, row, first=first and not resumed)
        first = False
        yield Advanced(spec, run.progress, row)
    store.finish(spec.key, seconds=time.monotonic() - started, **outcome(problem, run))
    if is_leader():
        shutil.rmtree(folder, ignore_errors=True)
    yield Done(spec, row)


def record_start(spec: RunSpec, store: Store, environment: Mapping[str, Setting], *, resumed: bool) -> None:
    """Mark a run as running. If it resumes on other cores, ``info["cores"]`` lists both numbers: ``1, then 2``."""
    interrupted = store.get(spec.key)
    info = dict(environment)
    if interrupted and resumed:
        history, now = str(interrupted.info.get("cores", "unknown")).split(", then "), str(info["cores"])
        if history != [now]:
            info["cores"] = ", then ".join(history if history[-1] == now else [*history, now])
    store.begin(spec, info)


def make_run(problem: Problem, spec: RunSpec, folder: Path, arguments: WorkerArguments) -> Run:
    """The run as its training function sees it."""
    return Run(
        spec,
        make_method(spec.method, spec.lam, spec.rho),
        problem.typed_settings(spec.settings),
        folder,
        data_dir=arguments.data_dir,
        checkpoint_every=arguments.checkpoint_every,
    )


def is_resumed(folder: Path) -> bool:
    """True if an earlier attempt has left files in the folder of a run."""
    return folder.is_dir() and any(folder.iterdir())


def train(problem: Problem, run: Run, *, may_be_over: bool) -> Iterator[Metrics]:
    """Train a run and yield its rows as plain numbers: tensors cannot be sent between processes.

    Args:
        problem: trains it.
        run: the run.
        may_be_over: whether an earlier attempt may have recorded all rows; else there must be at least one.
    """
    empty = not may_be_over
    for row in problem.train(run):
        empty = False
        try:
            numbers = {name: float(value) for name, value in row.items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise TypeError(f"a row is a dict of numbers by name, but got {row!r:.200}") from error
        yield numbers
    if empty:
        raise UserError(f"training {run.spec.problem} ended without a row: yield at least one")


def outcome(problem: Problem, run: Run) -> dict[str, Setting]:
    """The info that a trained run adds to its record."""
    samples = json.dumps([asdict(sample) for sample in run.samples])
    info = {**({"device": run.device} if run.device else {}), **({"samples": samples} if run.samples else {})}
    return {**info, **objective_info(problem.objectives)}
