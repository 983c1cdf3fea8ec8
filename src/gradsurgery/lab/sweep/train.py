"""Train every run of a grid once, however often a sweep is started, killed, or run beside another."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from gradsurgery.lab.analysis.allowance import Allowance
from gradsurgery.lab.analysis.series import is_main_alone
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.processes import is_leader, join
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.store import Store
from gradsurgery.lab.store.plan import announce
from gradsurgery.lab.sweep.adaptive import train_adaptively
from gradsurgery.lab.sweep.attempt import Leases
from gradsurgery.lab.sweep.events import Done, Failed, Listener, Planned, Stopped, Warned
from gradsurgery.lab.sweep.in_process import train_in_process
from gradsurgery.lab.sweep.network_folder import network_file_system
from gradsurgery.lab.sweep.origin import find_origins, settle_older_code
from gradsurgery.lab.sweep.resources import Resources, Training
from gradsurgery.lab.sweep.stopping import Stopping
from gradsurgery.lab.sweep.worker import Trainer


def train_grid(
    problem: Problem,
    runs: Sequence[RunSpec],
    *,
    folder: Path,
    listener: Listener,
    resources: Resources | None = None,
    max_lams: int | None = None,
    data_dir: Path | None = None,
    checkpoint_every: float = 60.0,
    again: bool = False,
    keep: bool = False,
    allowance: Allowance | None = None,
) -> list[RunRecord]:
    """Train the runs of a problem that are not stored yet, tell the listener, and return the records of all.

    Every run trains in a worker process with the same number of cores, even if it is the only one missing: a run's
    numbers depend on the number of cores. A run that raises an error or crashes is recorded as failed, with the reason,
    and the others go on; the next sweep tries it again.

    For an adaptive grid, ``runs`` is the coarse grid that it begins with, and ``max_lams`` the largest number of λ per
    method. With an ``allowance``, runs are stopped whose main cannot come back within it. The other arguments are those
    of ``lab.sweep``.
    """
    resources = resources or Resources()
    if resources.process is not None:
        _check_shared(max_lams, allowance)
        join(resources.process)
    leads = is_leader()
    with (
        nullcontext(str(folder)) if leads else TemporaryDirectory() as store_folder,
        Store(Path(store_folder) / "store.sqlite") as store,
        _remove_after_mistake(folder),
        resources.open() as (cores, training),
    ):
        origins = find_origins(problem, {run.method for run in runs})
        settle_older_code(problem, runs, store, again=again, keep=keep)
        stored = store.select(problem.name, status=None) if allowance else []
        stopping = Stopping(allowance, stored, problem.objectives.get("main")) if allowance else None
        leases = Leases(store, folder, origins, stopping)
        trainer = Trainer(problem, cores, data_dir, checkpoint_every)

        def train(grid: Sequence[RunSpec]) -> list[RunRecord]:
            return _train_missing(grid, trainer, leases, training, listener if leads else lambda event: None)

        records = train(runs) if max_lams is None else train_adaptively(runs, train, max_lams)
    return records if leads else []


@contextmanager
def _remove_after_mistake(folder: Path) -> Iterator[None]:
    """Remove a new folder if a mistake of the user is found before any run has left something in it."""
    is_new = not folder.exists()
    try:
        yield
    except UserError:
        if is_new:
            for path in (*sorted(folder.rglob("*"), reverse=True), folder):
                with suppress(OSError):  # a file, or a folder that is not empty
                    path.rmdir()
        raise


def _check_shared(max_lams: int | None, allowance: Allowance | None) -> None:
    """Raise for what processes that train every run together cannot do."""
    if allowance is not None:
        raise UserError("stopping runs early depends on results that only the first process has: give --no-stop")
    if max_lams is not None:
        raise UserError("an adaptive grid depends on results that only the first process has: give --lams in full")


def _train_missing(
    runs: Sequence[RunSpec], trainer: Trainer, leases: Leases, training: Training, listener: Listener
) -> list[RunRecord]:
    """Train the runs that are not done, report what happens to the listener, and return the records of all."""
    store, stopping = leases.store, leases.stopping
    runs = _by_urgency({run.key: run for run in runs}.values())
    listener(Planned(len(runs)))
    missing = {run.key: run for run in runs}
    stored = _stored_records(store, runs)
    for record in stored:
        if record.status == "done":
            listener(Done(missing.pop(record.spec.key), record.final, trained=False))
        elif record.status == "stopped" and stopping and stopping.allowance.is_covered(record.info):
            listener(Stopped(missing.pop(record.spec.key), str(record.info["reason"])))
        else:
            store.begin(record.spec, {})  # runs that have ended are skipped
    if missing:
        for sentence in _warnings(store.path.parent, stored, trainer.cores):
            listener(Warned(sentence))
    # in this process all runs: of processes that train together, only the leader knows which are missing
    to_train = runs if training is train_in_process else list(missing.values())
    with announce(store, list(missing.values())), closing(training(trainer, to_train, leases)) as events:
        for event in events:
            listener(event)
            if isinstance(event, Done | Failed | Stopped):
                missing.pop(event.run.key)
    records = _stored_records(store, runs)
    for record in records:
        if record.spec.key in missing and record.status == "done":  # another sweep has trained it
            listener(Done(record.spec, record.final, trained=False))
    return records


def _by_urgency(runs: Iterable[RunSpec]) -> list[RunSpec]:
    """Main alone first, then the first seed of every λ, then the other seeds: an answer is possible early."""
    runs = list(runs)
    seeds = list(dict.fromkeys(run.seed for run in runs))
    return sorted(runs, key=lambda run: (not is_main_alone(run), seeds.index(run.seed)))


def _stored_records(store: Store, runs: Sequence[RunSpec]) -> list[RunRecord]:
    return [record for run in runs if (record := store.get(run.key))]


def _warnings(folder: Path, stored: Sequence[RunRecord], cores: int) -> Iterator[str]:
    """Runs on different numbers of cores must not be compared; two machines must not share a store."""
    recorded = [str(record.info.get("cores", "unknown")) for record in stored if record.metrics]
    if different := [number for number in recorded if number != str(cores)]:
        yield (
            f"{len(different)} of {len(recorded)} stored runs of this grid used another number of cores "
            f"({' or '.join(sorted(set(different)))}; now {cores}), and numbers depend on it: compare with care"
        )
    if kind := network_file_system(folder):
        yield (
            f"{folder} is on a network file system ({kind}), where the store is safe for one machine at "
            "a time: do not sweep into it from two, which would damage it; --ray trains on several"
        )
