"""Worker processes of a sweep, seen from the parent: start them, receive their events, stop them.

Workers share the grid through claims in the store, so that no run is trained twice. Each starts at a different place in
the grid, so that each compiles only some of the methods.
"""

import multiprocessing
import pickle
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import cloudpickle

from gradsurgery.lab.declaration import Problem
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.sweeps.child_process import REPORTED, train_in_child
from gradsurgery.lab.sweeps.cores import Place, limit_children
from gradsurgery.lab.sweeps.events import Event
from gradsurgery.lab.sweeps.options import TrainingOptions

Workers: TypeAlias = dict[Any, BaseProcess]
"""Pipe -> process. A pipe is any of the kinds that ``multiprocessing.connection.wait`` takes."""


def train_in_workers(
    problem: Problem,
    runs: Sequence[RunSpec],
    store_path: Path,
    places: Sequence[Place],
    options: TrainingOptions,
) -> Generator[Event]:
    """Train runs in worker processes until all have ended.

    Args:
        problem: the problem of all runs.
        runs: the runs to train.
        store_path: the SQLite file.
        places: the cores and accelerators of each worker.
        options: see ``TrainingOptions``.
    """
    arguments = []
    for worker in range(len(places)):
        first = worker * len(runs) // len(places)
        arguments.append(pickle_arguments(problem, [*runs[first:], *runs[:first]], options))
    with _start_workers(arguments, store_path, places) as workers:
        while workers:
            for pipe in workers.keys() & set(wait(list(workers))):
                try:
                    message = pipe.recv()
                except EOFError:
                    _join(workers.pop(pipe))
                    continue
                if isinstance(message, tuple):
                    kind, sentence = message
                    raise REPORTED[kind](sentence)
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
def _start_workers(arguments: Sequence[bytes], store_path: Path, places: Sequence[Place]) -> Iterator[Workers]:
    """Start workers. At the end stop those that still train: their runs continue from a checkpoint next time."""
    context = multiprocessing.get_context("spawn")  # jax does not survive a fork
    workers: Workers = {}
    try:
        for worker_arguments, place in zip(arguments, places, strict=True):
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
