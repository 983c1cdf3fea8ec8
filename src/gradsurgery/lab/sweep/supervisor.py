"""Worker processes of a sweep: one for each run, or one for many if the problem allows it.

The supervisor leases runs, hands each to a process, records what the process reports, and sees it end. A process that
ends before its run is done has crashed: that run has failed, and the others go on.
"""

import multiprocessing
import pickle
import signal
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType

from gradsurgery.lab.analysis.series import is_main_alone
from gradsurgery.lab.run import RunSpec
from gradsurgery.lab.sweep import child
from gradsurgery.lab.sweep.attempt import Attempt, Leases
from gradsurgery.lab.sweep.cores import Place, limit_children
from gradsurgery.lab.sweep.events import Printed, RunEvent, Stopped
from gradsurgery.lab.sweep.log import Tail
from gradsurgery.lab.sweep.messages import Message
from gradsurgery.lab.sweep.shipment import ship
from gradsurgery.lab.sweep.worker import Trainer

_POLL_SECONDS = 0.5
_EXIT_SECONDS = 10.0
"""How long a process may take to exit after its last run."""


@dataclass
class _Worker:
    """A process, and the run that it trains."""

    process: BaseProcess
    pipe: Connection
    attempt: Attempt
    tail: Tail = field(init=False)
    methods: set[str] = field(default_factory=set)
    """Of all runs that it has trained."""
    exits_by: float | None = None
    """When to kill it; None while it is needed."""

    @property
    def is_idle(self) -> bool:
        """True if it waits for another run."""
        return self.attempt.ended and self.exits_by is None

    def give(self, attempt: Attempt) -> None:
        """Hand over a run."""
        self.attempt, self.tail = attempt, Tail(attempt.log)
        self.methods.add(attempt.spec.method)
        self.send(attempt.task)

    def send(self, message: object) -> None:
        """Send a task or an answer."""
        with suppress(OSError):  # the process is gone, as its sentinel will report
            self.pipe.send(message)

    def release(self) -> None:
        """Let the process exit by itself."""
        if self.exits_by is None:
            self.exits_by = time.monotonic() + _EXIT_SECONDS
            self.pipe.close()


class Supervisor:
    """Starts a worker at each place, gives them runs, and watches them."""

    def __init__(self, trainer: Trainer, leases: Leases, places: Sequence[Place], time_limit: float | None) -> None:
        self._leases, self._places, self._time_limit = leases, places, time_limit
        self._shares, self._shipment = trainer.problem.share_process, ship(trainer)
        self._workers: dict[int, _Worker] = {}  # by the index of the place
        self._retry_at = 0.0

    def train(self, runs: Sequence[RunSpec]) -> Generator[RunEvent]:
        """Train runs until all have ended, in about this order. Runs that another sweep trains are waited for."""
        pending = list(runs)
        try:
            while pending or self._workers:
                yield from self._assign(pending)
                for worker in self._workers.values():
                    if worker.is_idle and not pending:
                        worker.release()
                if self._workers:
                    yield from self._watch()
                elif pending:
                    time.sleep(_POLL_SECONDS)
        finally:
            for index in list(self._workers):
                self._discard(index)

    def _assign(self, pending: list[RunSpec]) -> Iterator[RunEvent]:
        """Give the runs that can be leased to idle workers, and to new ones where a place has none."""
        for index in range(len(self._places)):
            worker = self._workers.get(index)
            if worker and worker.is_idle and not worker.process.is_alive():
                self._discard(index)
                worker = None
            if not pending or (worker and not worker.is_idle) or time.monotonic() < self._retry_at:
                continue
            while isinstance(taken := self._leases.take_next(pending, self._order(pending, worker)), Stopped):
                yield taken
            if taken:
                self._workers[index] = worker or self._start(self._places[index], taken)
                self._workers[index].give(taken)
            else:
                self._retry_at = time.monotonic() + _POLL_SECONDS  # others train what is left

    def _order(self, pending: Sequence[RunSpec], worker: _Worker | None) -> Sequence[RunSpec]:
        """Of equally urgent runs, prefer a method that this worker has compiled, or no other has."""
        if not self._shares or not pending:
            return pending
        compiled = worker.methods if worker else set()
        others = {method for other in self._workers.values() for method in other.methods}
        first = _urgency(pending[0])
        return sorted(
            pending, key=lambda run: (_urgency(run) != first, run.method not in compiled, run.method in others)
        )

    def _start(self, place: Place, attempt: Attempt) -> _Worker:
        context = multiprocessing.get_context("spawn")  # jax does not survive a fork
        pipe, child_pipe = context.Pipe()
        process = context.Process(target=child.main, args=(child_pipe, self._shipment))
        with limit_children(place), _hide_main_module():
            process.start()
        child_pipe.close()
        return _Worker(process, pipe, attempt)

    def _watch(self) -> Iterator[RunEvent]:
        """Wait for messages, output, crashes and the end of time limits."""
        busy = {index: worker for index, worker in self._workers.items() if not worker.is_idle}
        pipes = [worker.pipe for worker in busy.values() if not worker.attempt.ended]
        ready = wait([*pipes, *(worker.process.sentinel for worker in busy.values())], timeout=_POLL_SECONDS)
        for index, worker in busy.items():
            yield from _record_messages(worker)
            if worker.process.sentinel in ready:
                worker.process.join()
                if not worker.attempt.ended:
                    yield worker.attempt.fail(_describe_exit(worker.process.exitcode))
                self._discard(index)
            elif not worker.attempt.ended and self._is_late(worker.attempt):
                yield worker.attempt.fail(f"stopped after the time limit of {self._time_limit:g} s")
                self._discard(index)
            elif worker.exits_by is not None and time.monotonic() > worker.exits_by:
                self._discard(index)
            elif worker.attempt.ended and not self._shares:
                worker.release()

    def _is_late(self, attempt: Attempt) -> bool:
        return self._time_limit is not None and time.monotonic() - attempt.began > self._time_limit

    def _discard(self, index: int) -> None:
        """End a process at once: a run that it still trains continues from what it saved next time."""
        worker = self._workers.pop(index)
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        worker.attempt.close()


def _urgency(run: RunSpec) -> int | None:
    """The same for runs that may change places: all of main alone, and those of the same seed."""
    return None if is_main_alone(run) else run.seed


def _record_messages(worker: _Worker) -> Iterator[RunEvent]:
    """Record what a worker has sent and printed."""
    attempt = worker.attempt
    while not attempt.ended:
        message = _receive(worker.pipe)
        for line in worker.tail.read():  # before the message, which may add a traceback to the log
            yield Printed(attempt.spec, line)
        if message is None:
            return
        if event := attempt.record_or_fail(message):
            yield event
        worker.send(not attempt.ended)


def _receive(pipe: Connection) -> Message | None:
    """The next message; None if there is none, or if the process died while it sent it."""
    with suppress(EOFError, OSError, pickle.UnpicklingError):
        if pipe.poll():
            message: Message = pipe.recv()
            return message
    return None


def _describe_exit(code: int | None) -> str:
    """Why a process ended before its run was done."""
    if code is None or code >= 0:
        return f"its process exited with code {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = ", perhaps because the memory was full" if name == "SIGKILL" else ""
    return f"its process was killed by {name}{hint}"


@contextmanager
def _hide_main_module() -> Iterator[None]:
    """Keep a worker from running the user's script again: everything it needs is pickled by value."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
