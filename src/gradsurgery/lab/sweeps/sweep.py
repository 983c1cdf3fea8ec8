"""A sweep trains every run of a grid once, however often it is started, killed, or run beside another sweep."""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TypeAlias

from gradsurgery.lab.declaration import Problem
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.method import registered_methods
from gradsurgery.lab.run import RunRecord, RunSpec
from gradsurgery.lab.store import Store
from gradsurgery.lab.sweeps.adaptive import train_adaptively
from gradsurgery.lab.sweeps.cores import Place, assign_places, available_cores
from gradsurgery.lab.sweeps.events import Advanced, Done, Event, Failed
from gradsurgery.lab.sweeps.listener import Listener
from gradsurgery.lab.sweeps.network_folder import network_file_system
from gradsurgery.lab.sweeps.options import RayOptions, TrainingOptions
from gradsurgery.lab.sweeps.workers import train_in_workers

Trainer: TypeAlias = Callable[[Sequence[RunSpec], Sequence[RunSpec]], Generator[Event]]
"""(all runs, missing runs) -> events of the missing runs while they train."""


def sweep(
    problem: Problem,
    runs: Sequence[RunSpec],
    store: Store,
    *,
    folder: Path,
    listener: Listener,
    max_lams: int | None = None,
    workers: int | None = None,
    cores_per_run: int | None = None,
    ray: RayOptions | None = None,
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
        store: holds the runs that are done, and records the others.
        folder: checkpoints go below it.
        listener: receives the progress.
        max_lams: for an adaptive grid, the largest number of λ per method; ``runs`` is then the coarse grid that it
            begins with.
        workers: the number of processes. None for one per accelerator or, without any, as many as get separate cores.
            0 trains in this process, on whatever cores it has, and raises what a run raises: for debugging, and for
            processes on several machines that train every run together.
        cores_per_run: the number of cores of each worker. None for 1, or with accelerators for an equal share of all.
        ray: train on a Ray cluster instead of in workers; a run has one core there unless ``cores_per_run`` says more.
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
    places: list[Place] = []
    if ray is not None:
        cores = cores_per_run or 1
    else:
        places = [Place(available_cores())] if workers == 0 else assign_places(workers, cores_per_run)
        cores = len(places[0].cores)
    options = TrainingOptions(
        folder,
        data_dir,
        checkpoint_every,
        cores=cores,
        methods=registered_methods(),
        raise_errors=workers == 0,
    )
    trainer = _choose_trainer(problem, store, options, workers=workers, places=places, ray=ray)

    def train(grid: Sequence[RunSpec]) -> list[RunRecord]:
        return _train_missing(grid, store, listener, trainer, cores)

    with _ray_connection(ray):
        return train(runs) if max_lams is None else train_adaptively(runs, train, max_lams)


def _check_least(meaning: str, number: int | None, least: int) -> None:
    if number is not None and number < least:
        raise UserError(f"{meaning} is a whole number from {least}, but got {number}")


def _choose_trainer(
    problem: Problem,
    store: Store,
    options: TrainingOptions,
    *,
    workers: int | None,
    places: Sequence[Place],
    ray: RayOptions | None,
) -> Trainer:
    """Where runs are trained: on Ray, in this process, or in workers."""
    if ray is not None:
        from gradsurgery.lab.sweeps.ray import train_on_ray  # loads ray

        return lambda runs, missing: train_on_ray(problem, missing, store, options, ray)
    if workers == 0:
        from gradsurgery.lab.sweeps.training import train_runs  # loads jax

        # all runs: of processes that train together, only the leader knows which are missing
        return lambda runs, missing: train_runs(problem, runs, store, options)
    return lambda runs, missing: train_in_workers(problem, missing, store.path, places[: len(missing)], options)


def _ray_connection(ray: RayOptions | None) -> AbstractContextManager[None]:
    """Keeps one connection to Ray for all stages of an adaptive sweep."""
    if ray is None:
        return nullcontext()
    from gradsurgery.lab.sweeps.ray import connection  # loads ray

    return connection(ray.address)


def _train_missing(
    runs: Sequence[RunSpec], store: Store, listener: Listener, trainer: Trainer, cores: int
) -> list[RunRecord]:
    """Train the runs that are not done, report what happens to the listener, and return the records of all."""
    runs = list({run.key: run for run in runs}.values())
    listener.sweep_started(len(runs))
    missing = {run.key: run for run in runs}
    stored = _stored_records(store, runs)
    for record in stored:
        if record.status == "done":
            listener.run_done(missing.pop(record.spec.key), record.final, trained=False)
        elif record.status == "failed":
            store.begin(record.spec, {})  # a trainer skips runs that are marked as failed
    if missing:
        _warn_about_cores(stored, cores, listener)
        _warn_about_network(store, listener)
    with closing(trainer(runs, list(missing.values()))) as events:
        for event in events:
            _report(event, listener)
            if not isinstance(event, Advanced):
                missing.pop(event.run.key)
    records = _stored_records(store, runs)
    for record in records:
        if record.spec.key in missing and record.status == "done":  # another sweep has trained it
            listener.run_done(record.spec, record.final, trained=False)
    return records


def _stored_records(store: Store, runs: Sequence[RunSpec]) -> list[RunRecord]:
    return [record for run in runs if (record := store.get(run.key))]


def _warn_about_cores(stored: Sequence[RunRecord], cores: int, listener: Listener) -> None:
    """Warn if this sweep mixes runs that were trained on different numbers of cores."""
    recorded = [str(record.info.get("cores", "unknown")) for record in stored if record.metrics]
    different = [number for number in recorded if number != str(cores)]
    if different:
        listener.warning(
            f"{len(different)} of {len(recorded)} stored runs of this grid used another number of cores "
            f"({' or '.join(sorted(set(different)))}; now {cores}), and numbers depend on it: compare with care"
        )


def _warn_about_network(store: Store, listener: Listener) -> None:
    """Warn if two machines might use this store."""
    if kind := network_file_system(store.path.parent):
        listener.warning(
            f"{store.path.parent} is on a network file system ({kind}), where the store is safe for one machine at a "
            "time: do not sweep into it from two, which would damage it; --ray trains on several"
        )


def _report(event: Event, listener: Listener) -> None:
    match event:
        case Advanced(run, fraction, metrics):
            listener.run_advanced(run, fraction, metrics)
        case Done(run, metrics):
            listener.run_done(run, metrics, trained=True)
        case Failed(run, reason):
            listener.run_failed(run, reason)
