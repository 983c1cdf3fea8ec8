"""Worker processes of a sweep: start them, receive their events, stop them.

Workers share the grid through leases in the store, so that no run is trained twice. Each starts at a different place in
the grid, so that each compiles only some of the methods.
"""

import multiprocessing
import os
import pickle
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import cloudpickle

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.method import register_method
from gradsurgery.lab.problem import Problem
from gradsurgery.lab.processes import exit_with_parent
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.store import Store, StoreError
from gradsurgery.lab.sweep.cores import Place, limit_children
from gradsurgery.lab.sweep.events import RunEvent
from gradsurgery.lab.sweep.worker import WorkerArguments, train_runs

Workers: TypeAlias = dict[Any, BaseProcess]
"""Pipe -> process. A pipe is any of the kinds that ``multiprocessing.connection.wait`` takes."""

_REPORTED = (UserError, StoreError, OSError)
"""Errors of a worker that the parent raises again. Any other error ends the worker with a traceback."""


def train_in_workers(
    problem: Problem,
    runs: Sequence[RunSpec],
    store_path: Path,
    places: Sequence[Place],
    arguments: WorkerArguments,
) -> Generator[RunEvent]:
    """Train runs in worker processes until all have ended.

    Args:
        problem: the problem of all runs.
        runs: the runs to train.
        store_path: the SQLite file.
        places: the cores and accelerators of each worker.
        arguments: see ``WorkerArguments``.
    """
    pickled = []
    for worker in range(len(places)):
        first = worker * len(runs) // len(places)
        pickled.append(pickle_arguments(problem, [*runs[first:], *runs[:first]], arguments))
    with _start_workers(pickled, store_path, places) as workers:
        while workers:
            for pipe in workers.keys() & set(wait(list(workers))):
                try:
                    message = pipe.recv()
                except EOFError:
                    _join(workers.pop(pipe))
                    continue
                if isinstance(message, Exception):
                    raise message
                yield message


def pickle_arguments(*arguments: Any) -> bytes:
    """Pickle for workers. Functions that they cannot import, such as those of a notebook or a script, go by value."""
    try:
        return cloudpickle.dumps(arguments)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UserError(
            f"a problem must be picklable to reach the worker processes ({error}): load what cannot be pickled inside "
            "the training function, or train in this process with workers=0"
        ) from error


@contextmanager
def _start_workers(pickled: Sequence[bytes], store_path: Path, places: Sequence[Place]) -> Iterator[Workers]:
    """Start workers. At the end stop those that still train: their runs continue from a checkpoint next time."""
    context = multiprocessing.get_context("spawn")  # jax does not survive a fork
    workers: Workers = {}
    try:
        for worker_arguments, place in zip(pickled, places, strict=True):
            pipe, child_pipe = context.Pipe(duplex=False)
            process = context.Process(target=train_in_child, args=(child_pipe, worker_arguments, store_path))
            with limit_children(place), _hide_main_module():
                process.start()
            workers[pipe] = process
            child_pipe.close()  # only the child's copy stays open, so its exit closes the pipe
        yield workers
    finally:
        for worker in workers.values():
            worker.terminate()
        for worker in workers.values():
            worker.join()


@contextmanager
def _hide_main_module() -> Iterator[None]:
    """Keep a worker from running the user's script again: everything it needs is pickled by value."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _join(process: BaseProcess) -> None:
    process.join()
    if process.exitcode:
        how = f"was killed by signal {-process.exitcode}" if process.exitcode < 0 else "ended with an error"
        raise OSError(f"a worker process {how}: the same command continues the sweep")


def train_in_child(pipe: Connection, pickled: bytes, store_path: Path) -> None:
    """The entry point of a worker: train runs, and send events to the parent.

    Args:
        pipe: to the parent. It carries events, and an error that the parent raises again.
        pickled: problem, runs and arguments for ``train_runs``.
        store_path: the SQLite file.
    """
    exit_with_parent()
    try:
        problem, runs, arguments = pickle.loads(pickled)
        for method in arguments.methods.values():
            register_method(method)
        with Store(store_path) as store:
            for event in train_runs(problem, runs, store, arguments):
                _send(pipe, event)
    except _REPORTED as error:
        kind = next(kind for kind in _REPORTED if isinstance(error, kind))
        _send(pipe, kind(str(error)))  # without its cause, which may not be picklable


def _send(pipe: Connection, message: Any) -> None:
    """Send a message, or exit if the parent is gone."""
    try:
        pipe.send(message)
    except OSError:
        os._exit(1)
