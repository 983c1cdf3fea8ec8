"""Train every run of a grid once, however often a sweep is started, killed, or run beside another."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.method import registered_methods
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.processes import is_leader, join
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.store import Store
from gradsurgery.lab.store.plan import announce
from gradsurgery.lab.sweep.adaptive import train_adaptively
from gradsurgery.lab.sweep.cores import Place, assign_places, available_cores
from gradsurgery.lab.sweep.events import Advanced, Done, Event, Listener, Planned, RunEvent, Warned
from gradsurgery.lab.sweep.network_folder import network_file_system
from gradsurgery.lab.sweep.pool import train_in_workers
from gradsurgery.lab.sweep.worker import WorkerArguments, train_runs

Trainer: TypeAlias = Callable[[Sequence[RunSpec], Sequence[RunSpec]], Generator[RunEvent]]
"""(all runs, missing runs) -> events of the missing runs while they train."""


@dataclass(frozen=True)
class RayCluster:
    """Which Ray cluster to train on, and the GPUs of each run."""

    address: str | None = None
    """None for the cluster in ``RAY_ADDRESS``, or for a local Ray that ends with the sweep."""
    gpus_per_run: int = 0


def train_grid(
    problem: Problem,
    runs: Sequence[RunSpec],
    *,
    folder: Path,
    listener: Listener,
    max_lams: int | None = None,
    workers: int | None = None,
    cores_per_run: int | None = None,
    ray: RayCluster | None = None,
    process: str | None = None,
    data_dir: Path | None = None,
    checkpoint_every: float = 60.0,
) -> list[RunRecord]:
    """Train the runs that are not stored yet, and return the records of all.

    Every run trains in a worker process with the same number of cores, even if it is the only one missing: a run's
    numbers depend on the number of cores. A run that raises an error is recorded as failed, with the reason, and the
    others go on; the next sweep tries it again.

    Args:
        problem: the problem of all runs.
        runs: the grid, all with the same settings.
        folder: has the store, which holds the runs that are done and records the others; checkpoints go below it.
        listener: receives the progress.
        max_lams: for an adaptive grid, the largest number of λ per method; ``runs`` is then the coarse grid that it
            begins with.
        workers: the number of processes. None for one per accelerator or, without any, as many as get separate cores.
            0 trains in this process, on whatever cores it has, and raises what a run raises: for debugging, and for
            processes on several machines that train every run together.
        cores_per_run: the number of cores of each worker. None for 1, or with accelerators for an equal share of all.
        ray: train on a Ray cluster instead of in workers; a run has one core there unless ``cores_per_run`` says more.
        process: this process's place among those that train every run together.
        data_dir: a folder whose subfolders stand in for hub ids.
        checkpoint_every: seconds between two checkpoints of a run.
    """
    _check_least("the number of workers", workers, 0)
    _check_least("the number of cores per run", cores_per_run, 1)
    _check_least("the number of GPUs per run", ray.gpus_per_run if ray else None, 0)
    if workers == 0 and cores_per_run is not None:
        raise UserError("cores per run are for workers, so training without workers takes none")
    if ray is not None and workers is not None:
        raise UserError("workers are processes on this machine, so training on Ray takes none")
    if process is not None:
        _check_together(workers, cores_per_run, ray, max_lams)
        join(process)
        workers = 0
    places: list[Place] = []
    if ray is not None:
        cores = cores_per_run or 1
    else:
        places = [Place(available_cores())] if workers == 0 else assign_places(workers, cores_per_run)
        cores = len(places[0].cores)
    arguments = WorkerArguments(
        folder,
        data_dir,
        checkpoint_every,
        cores=cores,
        methods=registered_methods(),
        raise_errors=workers == 0,
    )
    leads = is_leader()
    with (
        nullcontext(str(folder)) if leads else TemporaryDirectory() as store_folder,
        Store(Path(store_folder) / "store.sqlite") as store,
        _remove_after_mistake(folder, runs, store),
        _ray_connection(ray),
    ):
        trainer = _choose_trainer(problem, store, arguments, workers=workers, places=places, ray=ray)

        def train(grid: Sequence[RunSpec]) -> list[RunRecord]:
            return _train_missing(grid, store, listener if leads else _ignore, trainer, cores)

        records = train(runs) if max_lams is None else train_adaptively(runs, train, max_lams)
    return records if leads else []


@contextmanager
def _remove_after_mistake(folder: Path, runs: Sequence[RunSpec], store: Store) -> Iterator[None]:
    """Remove a new folder if a mistake of the user is found before any run has left something in it."""
    is_new = not folder.exists()
    try:
        yield
    except UserError:
        if is_new:
            for run in runs:
                with store.lease(run.key):
                    pass  # removes the file that a stopped worker has left
            for path in (*sorted(folder.rglob("*"), reverse=True), folder):
                with suppress(OSError):  # a file, or a folder that is not empty
                    path.rmdir()
        raise


def _ignore(event: Event) -> None:
    """Of processes that train together, only the leader reports."""


def _check_together(
    workers: int | None, cores_per_run: int | None, ray: RayCluster | None, max_lams: int | None
) -> None:
    if (workers, cores_per_run, ray) != (None, None, None):
        raise UserError(
            "processes that train together share every run, so --process takes no --workers, no --cores-per-run "
            "and no --ray"
        )
    if max_lams is not None:
        raise UserError("an adaptive grid depends on results that only the first process has: give --lams in full")


def _check_least(meaning: str, number: int | None, least: int) -> None:
    if number is not None and number < least:
        raise UserError(f"{meaning} is a whole number from {least}, but got {number}")


def _choose_trainer(
    problem: Problem,
    store: Store,
    arguments: WorkerArguments,
    *,
    workers: int | None,
    places: Sequence[Place],
    ray: RayCluster | None,
) -> Trainer:
    """Where runs are trained: on Ray, in this process, or in workers."""
    if ray is not None:
        from gradsurgery.lab.sweep.ray.driver import train_on_ray  # loads ray

        return lambda runs, missing: train_on_ray(problem, missing, store, arguments, ray)
    if workers == 0:
        # all runs: of processes that train together, only the leader knows which are missing
        return lambda runs, missing: train_runs(problem, runs, store, arguments)
    return lambda runs, missing: train_in_workers(problem, missing, store.path, places[: len(missing)], arguments)


def _ray_connection(ray: RayCluster | None) -> AbstractContextManager[None]:
    """Keeps one connection to Ray for all stages of an adaptive sweep."""
    if ray is None:
        return nullcontext()
    from gradsurgery.lab.sweep.ray.driver import connection  # loads ray

    return connection(ray.address)


def _train_missing(
    runs: Sequence[RunSpec], store: Store, listener: Listener, trainer: Trainer, cores: int
) -> list[RunRecord]:
    """Train the runs that are not done, report what happens to the listener, and return the records of all."""
    runs = list({run.key: run for run in runs}.values())
    listener(Planned(len(runs)))
    missing = {run.key: run for run in runs}
    stored = _stored_records(store, runs)
    for record in stored:
        if record.status == "done":
            listener(Done(missing.pop(record.spec.key), record.final, trained=False))
        elif record.status == "failed":
            store.begin(record.spec, {})  # a trainer skips runs that are marked as failed
    if missing:
        _warn_about_cores(stored, cores, listener)
        _warn_about_network(store, listener)
    with announce(store, list(missing.values())), closing(trainer(runs, list(missing.values()))) as events:
        for event in events:
            listener(event)
            if not isinstance(event, Advanced):
                missing.pop(event.run.key)
    records = _stored_records(store, runs)
    for record in records:
        if record.spec.key in missing and record.status == "done":  # another sweep has trained it
            listener(Done(record.spec, record.final, trained=False))
    return records


def _stored_records(store: Store, runs: Sequence[RunSpec]) -> list[RunRecord]:
    return [record for run in runs if (record := store.get(run.key))]


def _warn_about_cores(stored: Sequence[RunRecord], cores: int, listener: Listener) -> None:
    """Warn if this sweep mixes runs that were trained on different numbers of cores."""
    recorded = [str(record.info.get("cores", "unknown")) for record in stored if record.metrics]
    different = [number for number in recorded if number != str(cores)]
    if different:
        listener(
            Warned(
                f"{len(different)} of {len(recorded)} stored runs of this grid used another number of cores "
                f"({' or '.join(sorted(set(different)))}; now {cores}), and numbers depend on it: compare with care"
            )
        )


def _warn_about_network(store: Store, listener: Listener) -> None:
    """Warn if two machines might use this store."""
    if kind := network_file_system(store.path.parent):
        listener(
            Warned(
                f"{store.path.parent} is on a network file system ({kind}), where the store is safe for one machine at "
                "a time: do not sweep into it from two, which would damage it; --ray trains on several"
            )
        )
