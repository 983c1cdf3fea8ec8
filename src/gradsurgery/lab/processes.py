"""Processes that end with their parent, and processes that train every run together in JAX, on one machine or many.

Each of the latter is started by the same command. The first is the leader: it alone has the store, shows progress and
writes the report; the others follow its decisions. Checkpoints go to a folder that all of them can see. A process that
has not imported jax trains alone.
"""

import multiprocessing
import os
import re
import signal
import sys
import threading
from typing import Any

from gradsurgery.lab.errors import UserError


def join(process: str) -> None:
    """Connect to the other processes.

    Args:
        process: this process's index, their number, and the leader's address, as ``1/4@host:1234``; or ``auto`` where
            the environment knows (Slurm, Open MPI, Kubernetes, TPUs).
    """
    match = re.fullmatch(r"(\d+)/(\d+)@(\S+:\d+)", process)
    if process != "auto" and (match is None or int(match[1]) >= int(match[2])):
        raise UserError(f"a process must be auto, or INDEX/COUNT@HOST:PORT such as 0/2@host:1234; got {process!r}")
    try:
        import jax
    except ModuleNotFoundError as error:
        raise UserError('processes that train together need jax: pip install "gradsurgery[jax]"') from error
    try:
        if match is None:
            jax.distributed.initialize()
        else:
            jax.distributed.initialize(match[3], num_processes=int(match[2]), process_id=int(match[1]))
    except (RuntimeError, ValueError) as error:
        raise UserError(f"could not connect to the other processes ({str(error).splitlines()[0]})") from error


def is_leader() -> bool:
    """True in the first process, and if there is only one."""
    jax = _distributed_jax()
    return jax is None or jax.process_index() == 0


def broadcast_from_leader(number: int) -> int:
    """Return the leader's number, or its True or False, in every process."""
    if _distributed_jax() is None:
        return number
    import numpy as np
    from jax.experimental import multihost_utils

    return int(multihost_utils.broadcast_one_to_all(np.int64(number)))


def _distributed_jax() -> Any:
    """The module jax if it connects this process to others, else None. Does not start JAX's backend."""
    jax = sys.modules.get("jax")
    return jax if jax is not None and jax.distributed.is_initialized() else None


def exit_with_parent() -> None:
    """Exit when the parent process does, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
