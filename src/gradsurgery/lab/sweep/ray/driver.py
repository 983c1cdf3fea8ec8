"""A sweep on a Ray cluster: every run is a task, and this process, the driver, alone writes the store.

Tasks stream their rows to the driver. If a node is lost, the driver starts its runs again, each from the last copy of
its folder. Ray's own retries are off: they replay a task from its start and expect the same messages again, but a run
that continues from a checkpoint skips some.
"""

import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.sweep.attempt import Attempt, Leases
from gradsurgery.lab.sweep.cores import available_cores, thread_limits
from gradsurgery.lab.sweep.events import RunEvent, Stopped
from gradsurgery.lab.sweep.messages import Row
from gradsurgery.lab.sweep.ray.folder_copy import pack, unpack
from gradsurgery.lab.sweep.ray.task import Saved, train_in_task
from gradsurgery.lab.sweep.shipment import ship
from gradsurgery.lab.sweep.worker import Trainer

try:
    import ray
except ModuleNotFoundError as error:
    raise UserError('training on Ray needs ray: pip install "gradsurgery[ray]"') from error

RETRIES = 3
"""How often a run is started again after its node or its process was lost."""
_POLL_SECONDS = 1.0


class Driver:
    """Submits tasks to the connected cluster, and records their messages.

    The store is not touched if no node can train a run.
    """

    def __init__(self, trainer: Trainer, leases: Leases, gpus: int) -> None:
        self._leases, self._cpus, self._gpus = leases, trainer.cores, gpus
        self._shipment = ray.put(ship(trainer, sources=True))
        self._training: dict[Any, Attempt] = {}  # by the stream of messages
        self._lost: Counter[str] = Counter()  # by the key of the run
        self._remote = ray.remote(
            num_cpus=trainer.cores,
            num_gpus=gpus,
            max_retries=0,
            max_calls=0 if trainer.problem.share_process else 1,
            num_returns="streaming",
            runtime_env={"env_vars": thread_limits(trainer.cores)},
        )(train_in_task)

    def train(self, runs: Sequence[RunSpec]) -> Generator[RunEvent]:
        """Train runs until all have ended. Runs that another sweep trains are waited for."""
        pending, is_due = list(runs), True
        try:
            while pending or self._training:
                if is_due:
                    yield from self._submit(pending)
                ready: list[Any] = []
                if self._training:
                    ready, _ = ray.wait(list(self._training), num_returns=1, timeout=_POLL_SECONDS)
                elif pending:
                    time.sleep(_POLL_SECONDS)
                before = len(self._training)
                for stream in ready:
                    yield from self._receive(stream)
                is_due = not ready or len(self._training) < before
        finally:
            self._stop()

    def _stop(self) -> None:
        """Cancel the tasks that still train: their runs continue from the last copies of their folders next time."""
        while self._training:  # emptied, as Ray crashes if a traceback keeps a stream until after its shutdown
            stream, attempt = self._training.popitem()
            ray.cancel(stream, force=True)
            attempt.close()

    def _submit(self, pending: list[RunSpec]) -> Iterator[RunEvent]:
        """Submit runs that can be leased; raise if no node can train a run.

        Twice as many runs are submitted as fit: an autoscaling cluster starts nodes for tasks that wait.
        """
        limit = 2 * self._slots()
        while len(self._training) < limit and (taken := self._leases.take_next(pending)):
            if isinstance(taken, Stopped):
                yield taken
            else:
                self._start(taken)

    def _start(self, attempt: Attempt) -> None:
        files = pack(attempt.folder)
        self._training[self._remote.remote(self._shipment, attempt.spec, files)] = attempt

    def _receive(self, stream: Any) -> Iterator[RunEvent]:
        """Record the next message of a task."""
        attempt = self._training.pop(stream)
        try:
            message = ray.get(next(stream))
        except StopIteration:
            return
        except ray.exceptions.RayTaskError as error:  # before training began: the arguments could not be loaded
            cause = error.cause or error
            yield attempt.fail(f"{type(cause).__name__}: {cause}")
            return
        except ray.exceptions.RayError as error:
            self._lost[attempt.spec.key] += 1
            if not attempt.ended and self._lost[attempt.spec.key] <= RETRIES:
                attempt.restart()
                self._start(attempt)
            elif not attempt.ended:
                yield attempt.fail(f"lost {RETRIES + 1} times, last by {type(error).__name__}: {error}")
            return
        self._training[stream] = attempt  # to the end: the others come first next time
        if isinstance(message, Saved):
            attempt.store.flush_to_disk()  # after a power cut, a checkpoint must not be ahead of its rows
            unpack(message.files, attempt.folder)
        elif event := attempt.record_or_fail(message):
            yield event
        if attempt.ended and isinstance(message, Row):
            ray.cancel(stream, force=True)
            del self._training[stream]

    def _slots(self) -> int:
        """How many runs an idle cluster could train at once; raises if none."""
        cpus, gpus = self._cpus, self._gpus
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        fit = [min(node.get("CPU", 0) // cpus, node.get("GPU", 0) // gpus if gpus else 1e9) for node in nodes]
        if not sum(fit):
            largest: dict[str, float] = max(
                nodes, key=lambda node: (node.get("GPU", 0) if gpus else 0, node.get("CPU", 0)), default={}
            )
            raise UserError(
                f"a run needs a node with {_amounts(cpus, gpus)}, but no node of the Ray cluster has as many "
                f"(the largest has {_amounts(largest.get('CPU', 0), largest.get('GPU', 0))})"
            )
        return int(sum(fit))


@contextmanager
def connection(address: str) -> Iterator[None]:
    """Connect to a cluster, or start a local Ray that ends with the block. A connection that exists is used.

    An empty address stands for the one in ``RAY_ADDRESS``, or for a local Ray.
    """
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address.startswith("ray://"):
        raise UserError(
            f"runs stream their rows, which Ray Client cannot do; got {address}: give HOST:PORT of the head node, "
            "on a machine of the cluster or through ray job submit"
        )
    local: dict[str, Any] = {"num_cpus": available_cores(), "include_dashboard": False} if address == "local" else {}
    try:
        host, _, port = address.rpartition(":")
        if port.isdecimal():
            socket.create_connection((host, int(port)), timeout=10).close()  # Ray itself would try for minutes
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **local)
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(f"there is no Ray cluster at {address} ({str(error).splitlines()[0]})") from error
    try:
        yield
    finally:
        ray.shutdown()


def _amounts(cpus: float, gpus: float) -> str:
    counted = [f"{number:g} {kind}{'' if number == 1 else 's'}" for number, kind in ((cpus, "CPU"), (gpus, "GPU"))]
    return " and ".join(counted if gpus else counted[:1])
