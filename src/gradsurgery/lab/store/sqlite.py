"""The SQLite file below the store: opening it, checking it, and saying in one sentence what is wrong with it."""

import errno
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

VERSION = 1
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
    f"PRAGMA user_version = {VERSION}",
)


class StoreError(Exception):
    """One sentence: what is wrong with the store, where, and what to do. Nothing that was stored is lost."""


def connected(path: Path, patience: float) -> sqlite3.Connection:
    """A connection to a store that is whole and has our schema; a new file gets it.

    Args:
        path: the SQLite file.
        patience: seconds to wait for other processes that write.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    for place in (path.parent, path):
        if place.exists() and not os.access(place, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    deadline = time.monotonic() + patience
    while True:
        try:
            _check(path, patience)
            return _connect(path, patience)
        except sqlite3.OperationalError as error:  # who switches to WAL while others do is not made to wait
            if _code(error) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


@contextmanager
def told(path: Path, patience: float) -> Iterator[None]:
    """Turn an error of SQLite or of the system into one sentence."""
    try:
        yield
    except (sqlite3.Error, OSError, OverflowError, json.JSONDecodeError) as error:
        raise StoreError(_sentence(error, path, patience)) from error


def _check(path: Path, patience: float) -> None:
    """Raise unless the file is new, or whole and a store that we know. Only reads: damage shall not grow."""
    if not path.exists() or path.stat().st_size == 0:
        return
    # a journal is left by a process that was killed while it made the store, and wants to be rolled back
    mode = "rw" if path.with_name(f"{path.name}-journal").exists() else "ro"
    with closing(sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, timeout=patience)) as db:
        problem = _pragma(db, "quick_check(1)")
        if problem != "ok":
            raise StoreError(_damaged(path, problem))
        if _pragma(db, "schema_version") and _pragma(db, "application_id") != _APPLICATION:
            raise StoreError(f"{path} is a database of another program, not a store: choose another path")
        version = _pragma(db, "user_version")
        if version > VERSION:
            raise StoreError(
                f"the store {path} has schema {version} of a newer gradsurgery, this one knows {VERSION}: "
                "pip install --upgrade gradsurgery, or choose another path"
            )


def _connect(path: Path, patience: float) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        for setting in ("journal_mode = WAL", "foreign_keys = ON"):
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
