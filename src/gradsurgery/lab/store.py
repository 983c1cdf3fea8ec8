"""The store: every run of the lab in one SQLite file, shared by any number of processes, any of which may be killed.

    with Store("runs/store.db") as store, store.claim(spec.key) as mine:
        if mine and store.begin(spec, info).status != "done":
            store.log(spec.key, {"step": 0, "main_train": 2.3, "aux_train": 7.1})
            store.finish(spec.key, seconds=1.5)

What ``log`` was given when it returns is committed, and ``kill -9`` cannot take it back. (A power cut can, for the last
moments before it: to wait for the disk at every row would take longer than to train a small problem.)

A claim is a lock of the kernel on a file in the folder ``store.db.locks``: it ends with its process, however that ends.
"""

import errno
import json
import math
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Self

from filelock import FileLock, Timeout

from gradsurgery.lab.record import Metrics, RunRecord, RunSpec, Setting

_VERSION = 1
_APPLICATION = int.from_bytes(b"grad", "big")  # a SQLite file can say whose it is

# lam, rho and value have no type: SQLite then keeps what it is given, bit for bit. As REAL, -0.0 would come back as
# 0.0, and a weight 1 as 1.0, which makes another key.
_SCHEMA = (
    """CREATE TABLE runs (
        key TEXT PRIMARY KEY, problem TEXT NOT NULL, scale TEXT NOT NULL, method TEXT NOT NULL, lam, rho,
        seed INTEGER NOT NULL, settings TEXT NOT NULL, info TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('running', 'done', 'failed'))
    )""",
    """CREATE TABLE metrics (
        run TEXT NOT NULL REFERENCES runs (key), step INTEGER NOT NULL, name TEXT NOT NULL, value,
        PRIMARY KEY (run, step, name)
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)


class StoreError(Exception):
    """One sentence: what is wrong with the store, where, and what to do. Nothing that was stored is lost."""


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
        with self._told():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection: sqlite3.Connection | None = self._opened()

    def begin(self, spec: RunSpec, info: Mapping[str, Setting]) -> RunRecord:
        """Enter a run. One that is there keeps its metrics, and runs again if it had failed; one done stays as it is.

        Args:
            spec: the run.
            info: versions, commit, times: added to what is known about the run, unless it is done.

        Returns:
            The run as it now is: perhaps done meanwhile by another process, perhaps with metrics of steps after the
            checkpoint from which it goes on, to be dropped by ``truncate``.
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

    def truncate(self, key: str, after_step: int) -> None:
        """Forget what was logged after a step: a run that goes on from its checkpoint logs it again."""
        with self._transaction("IMMEDIATE") as db:
            self._info(db, key)
            db.execute("DELETE FROM metrics WHERE run = ? AND step > ?", (key, after_step))

    def finish(self, key: str, **info: Setting) -> None:
        """Call a run done, and add to what is known about it."""
        with self._transaction("IMMEDIATE") as db:
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
        with self._told():
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
    def _transaction(self, kind: str) -> Iterator[sqlite3.Connection]:
        """All or nothing. IMMEDIATE asks for the right to write first: in mid-transaction it can be refused."""
        with self._lock, self._told():
            db = self._connection
            if db is None:
                raise StoreError(f"the store {self.path} is closed: open it again with Store(path)")
            if os.getpid() != self._process:  # SQLite's locks do not survive a fork, the file could be damaged
                raise StoreError(f"the store {self.path} was opened before a fork: call Store(path) in each process")
            try:
                db.execute(f"BEGIN {kind}")
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    with suppress(sqlite3.Error):  # the first error is the one to tell
                        db.execute("ROLLBACK")
                raise

    def _opened(self) -> sqlite3.Connection:
        """A connection to a store that is whole and has our schema."""
        if self.path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        for place in (self.path.parent, self.path):
            if place.exists() and not os.access(place, os.R_OK | os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        deadline = time.monotonic() + self.patience
        while True:
            try:
                self._check()
                return _connect(self.path, self.patience)
            except sqlite3.OperationalError as error:  # who switches to WAL while others do is not made to wait
                if _code(error) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    def _check(self) -> None:
        """Raise unless the file is new, or whole and a store that we know. Only reads: damage shall not grow."""
        if not self.path.exists() or self.path.stat().st_size == 0:
            return
        # a journal is left by a process that was killed while it made the store, and wants to be rolled back
        mode = "rw" if self.path.with_name(f"{self.path.name}-journal").exists() else "ro"
        with closing(sqlite3.connect(f"{self.path.as_uri()}?mode={mode}", uri=True, timeout=self.patience)) as db:
            problem = _pragma(db, "quick_check(1)")
            if problem != "ok":
                raise StoreError(_damaged(self.path, problem))
            if _pragma(db, "schema_version") and _pragma(db, "application_id") != _APPLICATION:
                raise StoreError(f"{self.path} is a database of another program, not a store: choose another path")
            version = _pragma(db, "user_version")
            if version > _VERSION:
                raise StoreError(
                    f"the store {self.path} has schema {version} of a newer gradsurgery, this one knows {_VERSION}: "
                    "pip install --upgrade gradsurgery, or choose another path"
                )

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn an error of SQLite or of the system into one sentence."""
        try:
            yield
        except (sqlite3.Error, OSError, OverflowError, json.JSONDecodeError) as error:
            raise StoreError(_sentence(error, self.path, self.patience)) from error


def _connect(path: Path, patience: float) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        for setting in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON"):
            db.execute(f"PRAGMA {setting}")
        db.execute("BEGIN IMMEDIATE")
        if _pragma(db, "user_version") == 0:  # looked up within the transaction, as another may make it just now
            for statement in _SCHEMA:
                db.execute(statement)
        db.execute("COMMIT")
    except BaseException:
        db.close()
        raise
    return db


def _pragma(db: sqlite3.Connection, name: str) -> Any:
    return db.execute(f"PRAGMA {name}").fetchone()[0]


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


def _code(error: Exception) -> int:
    """SQLite's extended code, the kind of error in its last byte; 0 if the error is not SQLite's."""
    return getattr(error, "sqlite_errorcode", 0)


def _sentence(error: Exception, path: Path, patience: float) -> str:
    code, number = _code(error) & 0xFF, getattr(error, "errno", None)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or isinstance(error, json.JSONDecodeError):
        return _damaged(path, str(error))
    full = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)  # for the file, for the memory that processes share
    if _code(error) in full or number in (errno.ENOSPC, errno.EDQUOT):
        return f"no space is left for the store {path}, what it held before is safe: make room, then start again"
    if code == sqlite3.SQLITE_BUSY:
        return f"another process has locked the store {path} for more than {patience:g} s: end it, then start again"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) or number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"no permission to write the store {path} and beside it: change that, or choose another path"
    if number in (errno.EEXIST, errno.ENOTDIR):
        return f"no store can be made at {path}, for one of its folders is a file: choose another path"
    reason = getattr(error, "strerror", None) or error
    return (
        f"the store {path} cannot be used ({reason}), what it held before is safe: see to that or choose another path"
    )


def _damaged(path: Path, how: str) -> str:
    return (
        f"{path} is damaged or not a store ({' '.join(how.split())}), and was left as it is: put back a copy, save "
        f'what can be read with: sqlite3 "{path}" .recover, or choose another path'
    )
