"""The store: every run of the lab in one SQLite file, shared by any number of processes, any of which may be killed.

    with Store("runs/store.sqlite") as store, store.lease(spec.key) as leased:
        if leased and store.begin(spec, info).status != "done":
            store.log(spec.key, {"step": 0, "main_train": 2.3, "aux_train": 7.1})
            store.finish(spec.key, seconds=1.5)

When ``log`` returns, its row is committed and survives ``kill -9``. It survives a power cut only after
``flush_to_disk`` or ``finish``: waiting for the disk at every row would take longer than training a small problem.

A lease is a kernel lock on a file in the folder ``store.sqlite.leases``, so it ends with its process, however that
ends. Whoever holds it removes the file: nothing is left once all runs have ended.
"""

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from gradsurgery.lab.lam import write_lam
from gradsurgery.lab.run import Metrics, RunRecord, RunSpec, Setting
from gradsurgery.lab.store.lease import lease
from gradsurgery.lab.store.logged_run import LoggedRun, spec_of_script
from gradsurgery.lab.store.rows import check_row, parse_object, read_records
from gradsurgery.lab.store.sqlite import (
    VERSION,
    StoreError,
    check_path,
    connect,
    damage_error,
    is_read_only,
    translate_errors,
)
from gradsurgery.method import Method


def settings_text(settings: Mapping[str, Setting]) -> str:
    """Settings as text. It differs wherever the keys of runs do: 1, 1.0 and True are equal, but are different runs."""
    return json.dumps(dict(settings), sort_keys=True)


class Store:
    """The runs in one SQLite file.

    Several threads may share a ``Store``, and several processes may use the same file, each with its own ``Store``.
    Every method is one short transaction: it either succeeds, or changes nothing and raises ``StoreError``.

    Args:
        path: the SQLite file, or a folder that has it as ``store.sqlite``. If neither exists, the first write creates
            both: a path without a suffix, such as ``runs``, is the folder, any other the file.
        patience: seconds to wait for other processes that write.
    """

    def __init__(self, path: str | Path, *, patience: float = 60.0) -> None:
        self.path = Path(path).absolute()
        if self.path.is_dir() or not self.path.suffix:
            self.path /= "store.sqlite"
        self.patience = patience
        self._lock = Lock()
        self._process = os.getpid()
        self._closed = False
        self._connection: sqlite3.Connection | None = None
        with translate_errors(self.path, self.patience):
            check_path(self.path)
            if self.path.exists():
                self._connection = connect(self.path, self.patience)

    @property
    def is_read_only(self) -> bool:
        """True without permission to write the file or its folder: runs can be read, and writing raises."""
        return is_read_only(self.path)

    def begin(self, spec: RunSpec, info: Mapping[str, Setting]) -> RunRecord:
        """Mark a run as running. A run that is done is left alone; any other that is stored keeps its metrics.

        Args:
            spec: the run.
            info: how it is trained: versions, commit, device, cores. Added to the stored info, unless the run is done.

        Returns:
            The stored run. Another process may have finished it in the meantime. A run that continues from a checkpoint
            may have rows of later steps, which it will log again.
        """
        with self._transaction("IMMEDIATE") as db:
            self._insert(db, spec)
            if db.execute("SELECT status FROM runs WHERE key = ?", (spec.key,)).fetchone() != ("done",):
                self._set(db, spec.key, "running", info)
            return read_records(db, self.path, "key = :key", key=spec.key)[0]

    def log(self, key: str, metrics: Metrics, *, first: bool = False) -> None:
        """Store the metrics of the step ``metrics["step"]``; metrics of the same step and name are replaced.

        Args:
            key: the run.
            metrics: the row.
            first: whether it is the first row of an attempt that starts without a checkpoint. Rows of this and
                later steps, left over from an earlier attempt, are then dropped: this attempt may record others.
        """
        step, values = check_row(metrics)
        with self._transaction("IMMEDIATE") as db:
            self._info(db, key)  # raises if there is no such run
            if first:
                db.execute("DELETE FROM metrics WHERE run = ? AND step >= ?", (key, step))
            self._insert_row(db, key, step, values)

    def flush_to_disk(self) -> None:
        """Wait until everything logged so far is on the disk, safe from a power cut."""
        with self._transaction("IMMEDIATE", flush=True) as db:
            db.execute(f"PRAGMA user_version = {VERSION}")  # SQLite flushes only if the transaction writes something

    def finish(self, key: str, **info: Setting) -> None:
        """Mark a run as done, and add to its info."""
        with self._transaction("IMMEDIATE", flush=True) as db:
            self._set(db, key, "done", info)

    def fail(self, key: str, reason: str, **info: Setting) -> None:
        """Mark a run as failed, and add to its info; ``info["reason"]`` says why until it runs again."""
        with self._transaction("IMMEDIATE") as db:
            self._set(db, key, "failed", {"reason": reason, **info})

    def stop(self, key: str, reason: str, **info: Setting) -> None:
        """Mark a run as stopped early, and add to its info; ``info["reason"]`` says why until it runs again."""
        with self._transaction("IMMEDIATE") as db:
            self._set(db, key, "stopped", {"reason": reason, **info})

    def edit(self, *, remove: Iterable[str] = (), add: Iterable[RunRecord] = ()) -> None:
        """Remove runs by their keys, then add others with all that is recorded of them: all or nothing."""
        with self._transaction("IMMEDIATE", flush=True) as db:
            for key in remove:
                db.execute("DELETE FROM metrics WHERE run = ?", (key,))
                db.execute("DELETE FROM runs WHERE key = ?", (key,))
            for record in add:
                self._insert(db, record.spec)
                self._set(db, record.spec.key, record.status, record.info)
                for row in record.metrics:
                    values = {name: value for name, value in row.items() if name != "step"}
                    self._insert_row(db, record.spec.key, int(row["step"]), values)

    def get(self, key: str) -> RunRecord | None:
        """The run with this key, or None."""
        return next(iter(self._read("key = :key", key=key)), None)

    def select(
        self,
        problem: str | None = None,
        scale: str | None = None,
        status: str | None = "done",
        settings: Mapping[str, Setting] | None = None,
    ) -> list[RunRecord]:
        """The runs of a problem, scale, status and settings; None selects all.

        They are ordered by problem, scale, method, lam (relative ones last), rho and seed.
        """
        text = None if settings is None else settings_text(settings)
        values = {"problem": problem, "scale": scale, "status": status, "settings": text}
        return self._read(" AND ".join(f"(:{name} IS NULL OR {name} = :{name})" for name in values), **values)

    def problems(self) -> list[str]:
        """The names of all problems that have runs."""
        if self._is_new():
            return []
        with self._transaction("DEFERRED") as db:
            return [name for (name,) in db.execute("SELECT DISTINCT problem FROM runs ORDER BY problem")]

    @contextmanager
    def run(
        self,
        *,
        problem: str,
        method: Method,
        seed: int = 0,
        settings: Mapping[str, Setting] | None = None,
        scale: str = "default",
    ) -> Iterator[LoggedRun]:
        """Record a run of a training script that the lab does not start.

            with Store("runs").run(problem="mine", method=gs.bloop(lam=0.1), seed=0) as run:
                run.log(step=100, main_train=0.31, aux_train=4.2)

        The run is done when the block ends, and failed if it raises. A finished run that is recorded again is replaced
        when the new one ends. Two processes cannot record one run at the same time.

        Args:
            problem: a name for the problem; ``gradsurgery report NAME`` draws its runs.
            method: the method that the script trains with. Its ``rho`` must be a number, its ``lam`` a number or
                ``gs.relative`` of one, or a tuple of these, its ``tau`` a number.
            seed: the seed.
            settings: anything else that tells runs apart, such as the learning rate. Hyperparameters of the method
                other than lam, tau and rho, such as ``beta`` of ``gradvac``, must be among them.
            scale: a name for the size of the problem; for a problem of the paper, one of its scales.
        """
        spec = spec_of_script(problem, method, seed, dict(settings or {}), scale)
        with self.lease(spec.key) as leased:
            if not leased:
                raise StoreError(f"another process records the run {spec.key} in {self.path}: wait until it has ended")
            stored = self.get(spec.key)
            run = LoggedRun(self, spec, replaces=stored is not None and stored.status == "done")
            if not run.replaces:
                self.edit(remove=[spec.key])
                self.begin(spec, {})
            try:
                yield run
            except BaseException as error:
                if not run.replaces:
                    self.fail(spec.key, f"{type(error).__name__}: {error}")
                raise
            run.finish()

    @contextmanager
    def lease(self, key: str) -> Iterator[bool]:
        """Lease a run until the ``with`` block ends: True if it is ours, False if another process has it."""
        with ExitStack() as stack:
            with translate_errors(self.path, self.patience):
                leased = stack.enter_context(lease(self.path, key))
            yield leased

    def close(self) -> None:
        """Close the file. Closing twice does no harm."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None
            self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _is_new(self) -> bool:
        """True if nothing was ever written to this path."""
        return not self._closed and self._connection is None and not self.path.exists()

    def _read(self, where: str, **values: str | None) -> list[RunRecord]:
        """The runs that match an SQL condition."""
        if self._is_new():
            return []
        with self._transaction("DEFERRED") as db:
            return read_records(db, self.path, where, **values)

    def _insert(self, db: sqlite3.Connection, spec: RunSpec) -> None:
        """Insert a run as running, unless it is stored."""
        lam = write_lam(spec.lam)
        plain = (spec.key, spec.problem, spec.scale, spec.method, lam, spec.rho, spec.seed)
        places = ", ".join("?" * len(plain))
        settings = settings_text(spec.settings)
        db.execute(f"INSERT OR IGNORE INTO runs VALUES ({places}, ?, '{{}}', 'running')", (*plain, settings))

    def _insert_row(self, db: sqlite3.Connection, key: str, step: int, values: Metrics) -> None:
        rows = [(key, step, name, value) for name, value in values.items()]  # SQLite stores NaN as NULL
        db.executemany("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?, ?)", rows)

    def _info(self, db: sqlite3.Connection, key: str) -> dict[str, Setting]:
        """The info of a run; raises if there is no such run."""
        row = db.execute("SELECT info FROM runs WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise StoreError(f"the store {self.path} has no run {key}: call begin(spec, info) first")
        try:
            return parse_object("info", row[0])
        except ValueError as error:
            raise damage_error(self.path, f"run {key}: {error}") from error

    def _set(self, db: sqlite3.Connection, key: str, status: str, info: Mapping[str, Setting]) -> None:
        stored = self._info(db, key)
        for name in ("reason", "log", "allow", "absolute"):  # of an earlier attempt
            stored.pop(name, None)
        db.execute("UPDATE runs SET status = ?, info = ? WHERE key = ?", (status, json.dumps({**stored, **info}), key))

    @contextmanager
    def _transaction(self, kind: str, flush: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction, rolled back if the block raises.

        Args:
            kind: IMMEDIATE to write: a DEFERRED transaction that writes later can fail half-way.
            flush: wait at the end until this and all earlier transactions are on the disk.
        """
        with self._lock, translate_errors(self.path, self.patience):
            if self._closed:
                raise StoreError(f"the store {self.path} is closed: open it again with Store(path)")
            if os.getpid() != self._process:  # a connection used in two processes can corrupt the file
                raise StoreError(f"the store {self.path} was opened before a fork: call Store(path) in each process")
            db = self._connection = self._connection or connect(self.path, self.patience)
            try:
                db.execute(f"PRAGMA synchronous = {'FULL' if flush else 'NORMAL'}")
                db.execute(f"BEGIN {kind}")
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    with suppress(sqlite3.Error):  # the first error is the one to report
                        db.execute("ROLLBACK")
                raise
