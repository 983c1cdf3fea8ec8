"""Several processes that train together, on one machine or many: the same command on each, one batch shared by all.

The first process leads: it alone has the store, shows how a sweep is coming along and draws the report. The others do
what it does, at the same time. Checkpoints lie in a folder that all of them see.
"""

import re

import jax
import numpy as np
from jax.experimental import multihost_utils

from gradsurgery.lab.errors import UserError


def join(which: str) -> None:
    """Meet the other processes.

    Args:
        which: this process's number, how many there are, and where the first one listens, as ``1/4@host:1234``; or
            ``auto`` where the machine knows (Slurm, Open MPI, Kubernetes, TPUs).
    """
    given = re.fullmatch(r"(\d+)/(\d+)@(\S+:\d+)", which)
    if which != "auto" and (given is None or int(given[1]) >= int(given[2])):
        raise UserError(f"a process is auto, or its number and their count as 0/2@host:1234, but got {which!r}")
    try:
        if given is None:
            jax.distributed.initialize()
        else:
            jax.distributed.initialize(given[3], num_processes=int(given[2]), process_id=int(given[1]))
    except (RuntimeError, ValueError) as error:
        raise UserError(f"could not meet the other processes ({str(error).splitlines()[0]})") from error


def is_leader() -> bool:
    """Whether this process is the first, or the only one."""
    return jax.process_index() == 0


def broadcast_from_leader(*answers: bool) -> tuple[bool, ...]:
    """The first process's answers, for all of them."""
    return tuple(bool(broadcast_number(answer)) for answer in answers)


def broadcast_number(number: int) -> int:
    """The first process's number, for all of them."""
    return number if jax.process_count() == 1 else int(multihost_utils.broadcast_one_to_all(np.int64(number)))
