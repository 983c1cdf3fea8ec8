"""An attempt to train a run: leased by this process, which alone records it, message by message.

A run is in the store from its first row on. So a mistake that the training function finds while it loads its data
leaves nothing behind.
"""

import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.processes import broadcast_from_leader, is_leader
from gradsurgery.lab.run import Metrics, RunSpec, Setting
from gradsurgery.lab.store import Store
from gradsurgery.lab.store.edit import checkpoint_folder
from gradsurgery.lab.sweep.events import Advanced, Done, Failed, RunEvent, Stopped
from gradsurgery.lab.sweep.log import log_path, write_traceback
from gradsurgery.lab.sweep.messages import Ended, Flush, Message, Raised, Row, Started
from gradsurgery.lab.sweep.origin import Origins
from gradsurgery.lab.sweep.stopping import Stopping
from gradsurgery.lab.sweep.worker import Task


@dataclass(frozen=True)
class Leases:
    """Takes runs for this process, which then trains and records them.

    Args:
        store: leases and records runs; logs go beside it.
        folder: checkpoints go below it. Not that of the store: processes that train together share checkpoints, but
            only the leader's store is kept.
        origins: where the code of runs comes from, for their records.
        stopping: stops runs that cannot be recommended; None to train all.
    """

    store: Store
    folder: Path
    origins: Origins
    stopping: Stopping | None = None

    def has_ended(self, run: RunSpec) -> bool:
        """True unless the run is still to be trained, according to the leader's store."""
        record = self.store.get(run.key)
        return bool(broadcast_from_leader(record is not None and record.status != "running"))

    def take(self, run: RunSpec) -> "Attempt | None":
        """Lease a run; None if another process trains it, or has just ended it."""
        with ExitStack() as stack:
            leased = broadcast_from_leader(stack.enter_context(self.store.lease(run.key)))
            if not leased or self.has_ended(run):
                return None
            return Attempt(run, self, stack.pop_all())

    def take_next(self, pending: list[RunSpec], order: Sequence[RunSpec] = ()) -> "Attempt | Stopped | None":
        """Take a run off a list: to train, or as stopped if it needs no training.

        Args:
            pending: the runs that are left. Those that have ended are taken off, too.
            order: the same runs in the order of preference; by default that of the list.

        Returns:
            None if other processes train all that are left.
        """
        for run in [*(order or pending)]:
            attempt = None if (ended := self.has_ended(run)) else self.take(run)
            if ended or attempt:
                pending.remove(run)
            if attempt:
                reason = self.stopping and self.stopping.rule_out(run)
                return attempt.stop(reason) if reason else attempt
        return None


class Attempt:
    """A run in training."""

    def __init__(self, spec: RunSpec, leases: Leases, lease: ExitStack) -> None:
        self.spec, self.store, self.stopping = spec, leases.store, leases.stopping
        self.folder = checkpoint_folder(leases.folder.absolute(), spec.key)
        self.log = log_path(self.store.path.parent, spec)
        self.ended = False  # once it has, nothing more is recorded
        self._origin, self._lease = leases.origins[spec.method], lease
        self.restart()

    @property
    def task(self) -> Task:
        """What the process that trains the run needs to know of it."""
        return Task(self.spec, self.folder, self._may_be_over, self.log)

    def restart(self) -> None:
        """Start from what an earlier attempt saved in the folder, or anew."""
        self.began = time.monotonic()
        self.resumed = self.folder.is_dir() and any(self.folder.iterdir())
        if not self.resumed:
            self.log.unlink(missing_ok=True)
        record = self.store.get(self.spec.key)
        self._last: Metrics = record.final if record else {}
        self._first, self._recorded = not self.resumed, False
        self._may_be_over = bool(broadcast_from_leader(bool(self._last) and self.resumed))

    def record(self, message: Message) -> RunEvent | None:
        """Record a message, and return what the user should see of it.

        Raises:
            UserError: if the run raised one: a mistake that other runs would repeat.
            ValueError: if the store refuses a row.
        """
        match message:
            case Started(environment):
                self._start(environment)
            case Row(fraction, metrics):
                self.store.log(self.spec.key, metrics, first=self._first)
                self._first, self._last = False, metrics
                if self.stopping and (reason := self.stopping.judge(self.spec, metrics)):
                    return self.stop(reason)
                return Advanced(self.spec, fraction, metrics)
            case Flush():
                self.store.flush_to_disk()
            case Ended(info):
                self.store.finish(self.spec.key, **info)
                if self.stopping:
                    self.stopping.finish(self.spec)
                self._end(keep_folder=False)
                return Done(self.spec, self._last)
            case Raised(reason, is_mistake=True):
                if self._recorded:
                    self.fail(reason)
                raise UserError(reason)
            case Raised(reason, traceback=traceback):
                return self.fail(reason, traceback)
        return None

    def record_or_fail(self, message: Message) -> RunEvent | None:
        """Record a message; a row that the store refuses fails the run."""
        try:
            return self.record(message)
        except ValueError as error:
            return self.fail(f"{type(error).__name__}: {error}")

    def fail(self, reason: str, traceback: str = "") -> Failed:
        """Record the run as failed, and add the traceback to its log."""
        if traceback:
            write_traceback(self.log, traceback)
        has_log = self.log.exists() and self.log.stat().st_size > 0
        self.store.begin(self.spec, self._origin)
        self.store.fail(self.spec.key, reason, **({"log": f"logs/{self.log.name}"} if has_log else {}))
        self._end(keep_folder=True)  # the next attempt may continue from it
        return Failed(self.spec, reason, self.log if has_log else None)

    def stop(self, reason: str) -> Stopped:
        """Record the run as stopped."""
        assert self.stopping is not None
        self.store.begin(self.spec, self._origin)
        self.store.stop(self.spec.key, reason, **self.stopping.info)
        self._end(keep_folder=False)
        return Stopped(self.spec, reason)

    def close(self) -> None:
        """Release the run. One that has not ended continues from what it saved when it is taken again."""
        if self.log.exists() and not self.log.stat().st_size:
            self.log.unlink()
            with suppress(OSError):  # other logs are in it
                self.log.parent.rmdir()
        self._lease.close()

    def _end(self, *, keep_folder: bool) -> None:
        if not keep_folder and is_leader():
            shutil.rmtree(self.folder, ignore_errors=True)
        self.ended = True
        self.close()

    def _start(self, environment: Mapping[str, Setting]) -> None:
        """Mark the run as running. If it resumes on other cores, ``info["cores"]`` lists both numbers: 1, then 2."""
        interrupted = self.store.get(self.spec.key)
        info = {**environment, **self._origin}
        if interrupted and self.resumed:
            history, now = str(interrupted.info.get("cores", "unknown")).split(", then "), str(info["cores"])
            if history != [now]:
                info["cores"] = ", then ".join(history if history[-1] == now else [*history, now])
        self.store.begin(self.spec, info)
        self._recorded = True
