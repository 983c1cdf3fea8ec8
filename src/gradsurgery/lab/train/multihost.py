"""Several processes that train every run together, on one machine or many: each is started by the same command.

The first process is the leader. It alone has the store, shows progress and writes the report; the others follow its
decisions. Checkpoints go to a folder that all of them can see.
"""

import math
import re

import jax
import numpy as np
from jax.experimental import multihost_utils

from gradsurgery.lab.errors import UserError


def join(process: str) -> None:
    """Connect to the other processes.

    Args:
        process: this process's index, their number, and the leader's address, as ``1/4@host:1234``; or ``auto`` where
            the environment knows (Slurm, Open MPI, Kubernetes, TPUs).
    """
    match = re.fullmatch(r"(\d+)/(\d+)@(\S+:\d+)", process)
    if process != "auto" and (match is None or int(match[1]) >= int(match[2])):
        raise UserError(f"a process is auto, or INDEX/COUNT@HOST:PORT such as 0/2@host:1234, but got {process!r}")
    try:
        if match is None:
            jax.distributed.initialize()
        else:
            jax.distributed.initialize(match[3], num_processes=int(match[2]), process_id=int(match[1]))
    except (RuntimeError, ValueError) as error:
        raise UserError(f"could not connect to the other processes ({str(error).splitlines()[0]})") from error


def is_leader() -> bool:
    """True in the first process, and if there is only one."""
    return is_alone() or jax.process_index() == 0


def is_alone() -> bool:
    """True if this process trains alone, found out without starting JAX: PyTorch may need the accelerator's memory."""
    return not jax.distributed.is_initialized()


def broadcast_from_leader(*answers: bool) -> tuple[bool, ...]:
    """Return the leader's answers in every process."""
    return tuple(bool(broadcast_number(answer)) for answer in answers)


def broadcast_number(number: int) -> int:
    """Return the leader's number in every process."""
    return number if is_alone() else int(multihost_utils.broadcast_one_to_all(np.int64(number)))


class BatchSlices:
    """The slice of each batch that this process makes; all of it if there is only one process.

    Args:
        batch: examples in a training step.
        evaluated: maximum number of examples in an evaluation; slightly fewer if they do not divide into equal batches.
    """

    def __init__(self, batch: int, evaluated: int) -> None:
        devices = len(jax.devices())
        if batch % devices or evaluated < devices:
            raise UserError(
                f"{devices} devices share each batch, so the batch must be a multiple of {devices} and at least "
                f"{devices} examples must be evaluated, but got a batch of {batch} and {evaluated} evaluated"
            )
        fewest = math.ceil(evaluated / batch)
        equal = (count for count in range(fewest, 2 * fewest + 1) if evaluated % (count * devices) == 0)
        batches = next(equal, fewest)
        size = evaluated // batches // devices * devices
        self.training = _local_slice(batch)
        """Of a training batch."""
        self.evaluation = batches * size, size, _local_slice(size)
        """Examples to evaluate, examples in each batch, and the slice of that batch."""


def _local_slice(batch: int) -> slice:
    size = batch // jax.process_count()
    return slice(jax.process_index() * size, (jax.process_index() + 1) * size)
