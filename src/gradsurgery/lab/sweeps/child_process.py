"""The code of a worker process: train runs, send events to the parent, and exit when the parent does."""

import multiprocessing
import os
import pickle
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.method import register_method
from gradsurgery.lab.store import Store, StoreError

REPORTED: dict[str, type[Exception]] = {"user": UserError, "store": StoreError, "system": OSError}
"""Errors of a worker that the parent raises again. Any other error ends the worker with a traceback."""


def train_in_child(pipe: Connection, arguments: bytes, store_path: Path) -> None:
    """The entry point of a worker.

    Args:
        pipe: to the parent. It carries events; for an error, the pair (kind, sentence).
        arguments: problem, runs and options for ``train_runs``, pickled.
        store_path: the SQLite file.
    """
    exit_with_parent()
    try:
        from gradsurgery.lab.sweeps.training import train_runs  # loads jax

        problem, runs, options = pickle.loads(arguments)
        for method in options.methods.values():
            register_method(method)
        with Store(store_path) as store:
            for event in train_runs(problem, runs, store, options):
                _send(pipe, event)
    except tuple(REPORTED.values()) as error:
        kind = next(name for name, error_type in REPORTED.items() if isinstance(error, error_type))
        _send(pipe, (kind, str(error)))


def _send(pipe: Connection, message: Any) -> None:
    """Send a message, or exit if the parent is gone."""
    try:
        pipe.send(message)
    except OSError:
        os._exit(1)


def exit_with_parent() -> None:
    """Exit when the parent process does, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
