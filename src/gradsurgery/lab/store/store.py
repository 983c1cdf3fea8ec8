"""The store: every run of the lab in one SQLite file, shared by any number of processes, any of which may be killed.

    with Store("runs/store.db") as store, store.claim(spec.key) as mine:
        if mine and store.begin(spec, info).status != "done":
            store.log(spec.key, {"step": 0, "main_train": 2.3, "aux_train": 7.1})
            store.finish(spec.key, seconds=1.5)

What ``log`` was given when it returns is committed, and ``kill -9`` cannot take it back. A power cut can, until
``secure`` or ``finish``: to wait for the disk at every row would take longer than to train a small problem.

A claim is a lock of the kernel on a file in the folder ``store.db.locks``: it ends with its process, however that ends.
"""

import json
import math
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from filelock import FileLock, Timeout

from gradsurgery.lab.run import Metrics, RunRecord, RunSpec, Setting
from gradsurgery.lab.store.sqlite import VERSION, StoreError, connected, told


class Store:
    """The runs in one file.

    Several processes, each with a ``Store`` of its own, and several threads may use it at once. Every method is one
    short transaction: it happens as a whole, or not at all and a ``StoreError`` says why.

    Args:
        path: the SQLite file. It is made if it is not there, and its folder too.
        patience: seconds to wait for other processes that write.
    """

    def __init__(self, path: str | Path, *, patience: float = 60.0) -> None:
        self.path = Path(path).absolute()
        self.patience = patience
        self._lock = Lock()
        self._process = os.getpid()
        with told(self.path, self.patience):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection: sqlite3.Connection | None = connected(self.path, self.patience)

    def begin(self, spec: RunSpec, info: Mapping[str, Setting]) -> RunRecord:
        """Enter a run. One that is there keeps its metrics, and runs again if it had failed; one done stays as it is.

        Args:
            spec: the run.
            info: versions, commit, times: added to what is known about the run, unless it is done.

        Returns:
            The run as it now is: perhaps done meanwhile by another process, perhaps with metrics of steps after the
            checkpoint from which it goes on, which it logs again.
        """
        plain = (spec.key, spec.problem, spec.scale, spec.method, spec.lam, spec.rho, spec.seed)
        settings = json.dumps(dict(spec.settings), sort_keys=True)
        with self._transaction("IMMEDIATE") as db:
            places = ", ".join("?" * len(plain))
            db.execute(f"INSERT OR IGNORE INTO runs VALUES ({places}, ?, '{{}}', 'running')", (*plain, settings))
            if db.execute("SELECT status FROM runs WHERE key = ?", (spec.key,)).fetchone() != ("done",):
                self._set(db, spec.key, "running", info)
            return _records(db, "key = :key", key=spec.key)[0]

    def log(self, key: str, metrics: Metrics) -> None:
        """Keep what was measured at ``metrics["step"]``, in place of what that step has under the same names."""
        step = float(metrics.get("step", math.nan))
        values = {name: float(value) for name, value in metrics.items() if name != "step"}
        if not (step.is_integer() and values):
            raise ValueError(f"a row has a whole number as its step, and some metrics, but got {dict(metrics)}")
        rows = [(key, int(step), name, value) for name, value in values.items()]  # SQLite turns NaN into NULL
        with self._transaction("IMMEDIATE") as db:
            self._info(db, key)
            db.executemany("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?, ?)", rows)

    def secure(self) -> None:
        """Wait until all that was logged is on the disk, where no power cut can reach it."""
        with self._transaction("IMMEDIATE", lasting=True) as db:
            db.execute(f"PRAGMA user_version = {VERSION}")  # SQLite waits for the disk when something is written

    def finish(self, key: str, **info: Setting) -> None:
        """Call a run done, and add to what is known about it."""
        with self._transaction("IMMEDIATE", lasting=True) as db:
            self._set(db, key, "done", info)

    def fail(self, key: str, reason: str) -> None:
        """Call a run failed; ``info["reason"]`` tells why until it runs again."""
        with self._transaction("IMMEDIATE") as db:
            self._set(db, key, "failed", {"reason": reason})

    def get(self, key: str) -> RunRecord | None:
        """The run with this key, if there is one."""
        with self._transaction("DEFERRED") as db:
            return next(iter(_records(db, "key = :key", key=key)), None)

    def select(
        self, problem: str | None = None, scale: str | None = None, status: str | None = "done"
    ) -> list[RunRecord]:
        """The runs by problem, scale, method, lam, rho and seed. None stands for every problem, scale or status."""
        wanted = {"problem": problem, "scale": scale, "status": status}
        where = " AND ".join(f"(:{name} IS NULL OR {name} = :{name})" for name in wanted)
        with self._transaction("DEFERRED") as db:
            return _records(db, where, **wanted)

    @contextmanager
    def claim(self, key: str) -> Iterator[bool]:
        """Hold a run: True if it is now ours alone until the ``with`` ends, False if somebody else holds it."""
        folder = self.path.with_name(f"{self.path.name}.locks")
        lock = FileLock(folder / f"{key}.lock", thread_local=False)
        with told(self.path, self.patience):
            folder.mkdir(exist_ok=True)
            with suppress(Timeout):
                lock.acquire(timeout=0)
        try:
            yield lock.is_locked
        finally:
            lock.release()  # the file stays: to remove it would let two processes hold two files of one name

    def close(self) -> None:
        """Let go of the file; once is enough, twice does no harm."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _info(self, db: sqlite3.Connection, key: str) -> dict[str, Setting]:
        """What is known about a run; raises if there is none."""
        row = db.execute("SELECT info FROM runs WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise StoreError(f"the store {self.path} has no run {key}: enter it with begin(spec, info) first")
        return dict(json.loads(row[0]))

    def _set(self, db: sqlite3.Connection, key: str, status: str, info: Mapping[str, Setting]) -> None:
        known = self._info(db, key)
        known.pop("reason", None)
        db.execute("UPDATE runs SET status = ?, info = ? WHERE key = ?", (status, json.dumps({**known, **info}), key))

    @contextmanager
    def _transaction(self, kind: str, lasting: bool = False) -> Iterator[sqlite3.Connection]:
        """All or nothing. IMMEDIATE asks for the right to write first: in mid-transaction it can be refused.

        A lasting one is on the disk, with all before it, when it ends.
        """
        with self._lock, told(self.path, self.patience):
            db = self._connection
            if db is None:
                raise StoreError(f"the store {self.path} is closed: open it again with Store(path)")
            if os.getpid() != self._process:  # SQLite's locks do not survive a fork, the file could be damaged
                raise StoreError(f"the store {self.path} was opened before a fork: call Store(path) in each process")
            try:
                db.execute(f"PRAGMA synchronous = {'FULL' if lasting else 'NORMAL'}")
                db.execute(f"BEGIN {kind}")
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    with suppress(sqlite3.Error):  # the first error is the one to tell
                        db.execute("ROLLBACK")
                raise


def _records(db: sqlite3.Connection, where: str, **wanted: str | None) -> list[RunRecord]:
    records = []
    order = "problem, scale, method, lam, rho, seed, settings, key"
    runs = db.execute(f"SELECT * FROM runs WHERE {where} ORDER BY {order}", wanted)
    for key, problem, scale, method, lam, rho, seed, settings, info, status in runs:
        rows: dict[int, dict[str, float]] = {}
        logged = db.execute("SELECT step, name, value FROM metrics WHERE run = ? ORDER BY step, name", (key,))
        for step, name, value in logged:
            rows.setdefault(step, {"step": step})[name] = math.nan if value is None else value
        spec = RunSpec(problem, scale, method, lam, rho, seed, json.loads(settings))
        records.append(RunRecord(spec, status, json.loads(info), tuple(rows.values())))
    return records
