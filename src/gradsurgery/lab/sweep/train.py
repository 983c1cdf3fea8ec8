"""Train every run of a grid once, however often a sweep is started, killed, or run beside another."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from gradsurgery.lab.analysis import Allowance, is_main_alone
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.method import registered_methods
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.processes import is_leader, join
from gradsurgery.lab.run import RunRecord, RunSpec, Setting
from gradsurgery.lab.store import Store
from gradsurgery.lab.store.plan import announce
from gradsurgery.lab.sweep.adaptive import train_adaptively
from gradsurgery.lab.sweep.attempt import Leases
from gradsurgery.lab.sweep.cores import Place, assign_places, available_cores
from gradsurgery.lab.sweep.events import Done, Event, Failed, Listener, Planned, RunEvent, Stopped, Warned
from gradsurgery.lab.sweep.in_process import train_in_process
from gradsurgery.lab.sweep.network_folder import network_file_system
from gradsurgery.lab.sweep.origin import find_origins, settle_older_code
from gradsurgery.lab.sweep.stopping import Stopping
from gradsurgery.lab.sweep.supervisor import Supervisor
from gradsurgery.lab.sweep.worker import WorkerArguments

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
    slurm: Mapping[str, Setting] | None = None,
    process: str | None = None,
    data_dir: Path | None = None,
    checkpoint_every: float = 60.0,
    time_limit: float | None = None,
    again: bool = False,
    keep: bool = False,
    allowance: Allowance | None = None,
) -> list[RunRecord]:
    """Train the runs that are not stored yet, and return the records of all.

    Every run trains in a worker process with the same number of cores, even if it is the only one missing: a run's
    numbers depend on the number of cores. A run that raises an error or crashes is recorded as failed, with the reason,
    and the others go on; the next sweep tries it again.

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
        slurm: train as jobs of Slurm, with these parameters of submitit; else as with ``ray``.
        process: this process's place among those that train every run together.
        data_dir: a folder whose subfolders stand in for hub ids.
        checkpoint_every: seconds between two checkpoints of a run.
        time_limit: seconds after which a run fails; None for any time.
        again: drop stored runs of older code.
        keep: keep stored runs of older code. With neither, a sweep with such runs is refused.
        allowance: stop runs whose main cannot come back within it; None to train all.
    """
    _check_least("the number of workers", workers, 0)
    _check_least("the number of cores per run", cores_per_run, 1)
    _check_least("the number of GPUs per run", ray.gpus_per_run if ray else None, 0)
    if workers == 0 and cores_per_run is not None:
        raise UserError("cores per run are for workers, so training without workers takes none")
    if time_limit is not None and not time_limit > 0:
        raise UserError(f"the time limit of a run must be a number of seconds above 0; got {time_limit}")
    elsewhere = ray is not None or slurm is not None
    if ray is not None and slurm is not None:
        raise UserError("runs train on Ray or on Slurm, not on both")
    if time_limit is not None and (workers == 0 or elsewhere or process is not None):
        raise UserError("a time limit needs worker processes on this machine, which are ended when it is over")
    if elsewhere and workers is not None:
        raise UserError("workers are processes on this machine, so training on Ray or Slurm takes none")
    if process is not None:
        _check_together(workers, cores_per_run, elsewhere, max_lams, allowance)
        join(process)
        workers = 0
    places = [] if elsewhere or workers == 0 else assign_places(workers, cores_per_run)
    cores = cores_per_run or 1 if elsewhere else len(places[0].cores if places else available_cores())
    arguments = WorkerArguments(data_dir, checkpoint_every, cores, registered_methods())
    leads = is_leader()
    with (
        nullcontext(str(folder)) if leads else TemporaryDirectory() as store_folder,
        Store(Path(store_folder) / "store.sqlite") as store,
        _remove_after_mistake(folder),
        _ray_connection(ray),
    ):
        origins = find_origins(problem, runs)
        settle_older_code(problem, runs, store, origins, again=again, keep=keep)
        leases = Leases(store, folder, origins, _stopping(problem, store, allowance) if allowance else None)
        trainer = _choose_trainer(
            problem, leases, arguments, places=places, ray=ray, slurm=slurm, time_limit=time_limit
        )

        def train(grid: Sequence[RunSpec]) -> list[RunRecord]:
            return _train_missing(grid, leases, listener if leads else _ignore, trainer, cores)

        records = train(runs) if max_lams is None else train_adaptively(runs, train, max_lams)
    return records if leads else []


def _stopping(problem: Problem, store: Store, allowance: Allowance) -> Stopping:
    """Stops runs by the metric that recommendations limit."""
    stored = store.select(problem.name, status=None)
    named = problem.objectives.get("main")
    if named is None:
        return Stopping(allowance, stored)
    return Stopping(allowance, stored, metrics=[named.metric], maximise=named.maximise)


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


def _ignore(event: Event) -> None:
    """Of processes that train together, only the leader reports."""


def _check_together(
    workers: int | None, cores_per_run: int | None, elsewhere: bool, max_lams: int | None, allowance: Allowance | None
) -> None:
    if workers is not None or cores_per_run is not None or elsewhere:
        raise UserError(
            "processes that train together share every run, so --process takes no --workers, no --cores-per-run, "
            "no --ray and no --slurm"
        )
    if allowance is not None:
        raise UserError("runs are stopped by what only the first process knows: give --no-stop")
    if max_lams is not None:
        raise UserError("an adaptive grid depends on results that only the first process has: give --lams in full")


def _check_least(meaning: str, number: int | None, least: int) -> None:
    if number is not None and number < least:
        raise UserError(f"{meaning} must be a whole number from {least}; got {number}")


def _choose_trainer(
    problem: Problem,
    leases: Leases,
    arguments: WorkerArguments,
    *,
    places: Sequence[Place],
    ray: RayCluster | None,
    slurm: Mapping[str, Setting] | None,
    time_limit: float | None,
) -> Trainer:
    """Where runs are trained: on Ray, on Slurm, in this process, or in workers."""
    if ray is not None:
        from gradsurgery.lab.sweep.ray.driver import train_on_ray  # loads ray

        return lambda runs, missing: train_on_ray(problem, missing, leases, arguments, ray)
    if slurm is not None:
        from gradsurgery.lab.sweep.slurm import train_on_slurm  # loads submitit

        return lambda runs, missing: train_on_slurm(problem, missing, leases, arguments, slurm)
    if not places:
        # all runs: of processes that train together, only the leader knows which are missing
        return lambda runs, missing: train_in_process(problem, runs, leases, arguments)
    supervisor = Supervisor(problem, leases, places, arguments, time_limit)
    return lambda runs, missing: supervisor.train(missing)


def _ray_connection(ray: RayCluster | None) -> AbstractContextManager[None]:
    """Keeps one connection to Ray for all stages of an adaptive sweep."""
    if ray is None:
        return nullcontext()
    from gradsurgery.lab.sweep.ray.driver import connection  # loads ray

    return connection(ray.address)


def _train_missing(
    runs: Sequence[RunSpec], leases: Leases, listener: Listener, trainer: Trainer, cores: int
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
            store.begin(record.spec, {})  # a trainer skips runs that have ended
    if missing:
        _warn_about_cores(stored, cores, listener)
        _warn_about_network(store, listener)
    with announce(store, list(missing.values())), closing(trainer(runs, list(missing.values()))) as events:
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
