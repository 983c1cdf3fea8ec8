"""The SQLite file of a store: open it, check it, and translate its errors into one sentence each."""

import errno
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

VERSION = 2
_APPLICATION = int.from_bytes(b"grad", "big")  # marks a SQLite file as ours

# lam, rho and value have no type, so that SQLite keeps them bit for bit. As REAL, -0.0 would become 0.0, and a weight 1
# would become 1.0, which has another key.
_SCHEMA = (
    """CREATE TABLE runs (
        key TEXT PRIMARY KEY, problem TEXT NOT NULL, scale TEXT NOT NULL, method TEXT NOT NULL, lam, rho,
        seed INTEGER NOT NULL, settings TEXT NOT NULL, info TEXT NOT NULL, status TEXT NOT NULL
    )""",
    """CREATE TABLE metrics (
        run TEXT NOT NULL REFERENCES runs (key), step INTEGER NOT NULL, name TEXT NOT NULL, value,
        PRIMARY KEY (run, step, name)
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)


class StoreError(Exception):
    """What is wrong with the store, where, and what to do, in one sentence. Nothing that was stored is lost."""


def is_read_only(path: Path) -> bool:
    """True for a store that can be read but not written: SQLite needs files beside it to write."""
    return path.exists() and not all(os.access(place, os.W_OK) for place in (path.parent, path))


def check_path(path: Path) -> None:
    """Raise an ``OSError`` if there is no store to read at this path and none can be created. Creates nothing."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    folder = next(parent for parent in path.parents if parent.exists())
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not (os.access(path, os.R_OK) if path.exists() else os.access(folder, os.R_OK | os.W_OK)):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def connect(path: Path, patience: float) -> sqlite3.Connection:
    """Connect to a store; create it, with its folder, if there is no file. Raise if it is damaged or not a store.

    Without permission to write, the connection is read-only.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + patience
    while True:
        try:
            _check(path, patience)
            return _open(path, patience)
        except sqlite3.OperationalError as error:  # SQLite's timeout does not cover the switch to WAL
            if _code(error) & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


@contextmanager
def translate_errors(path: Path, patience: float) -> Iterator[None]:
    """Turn an error of SQLite or of the operating system into a ``StoreError``."""
    try:
        yield
    except (sqlite3.Error, OSError, OverflowError) as error:
        raise StoreError(_sentence(error, path, patience)) from error


def damage_error(path: Path, reason: str) -> StoreError:
    """The error for a file whose content is not what a store writes."""
    return StoreError(
        f"{path} is damaged or not a store ({' '.join(reason.split())}) and was left as it is: restore a backup, save "
        f'what is readable with: sqlite3 "{path}" .recover, or choose another path'
    )


def _check(path: Path, patience: float) -> None:
    """Raise unless the file is new, or an intact store with a known schema. Read-only, so that damage cannot grow."""
    if not path.exists() or path.stat().st_size == 0:
        return
    # A process that was killed while it created the store leaves a journal, and rolling it back needs write access.
    mode = "rw" if path.with_name(f"{path.name}-journal").exists() else "ro"
    with closing(_connect(path, patience, mode)) as db:
        found = _pragma(db, "quick_check(1)")
        if found != "ok":
            raise damage_error(path, found)
        if _pragma(db, "schema_version") and _pragma(db, "application_id") != _APPLICATION:
            raise StoreError(f"{path} is a database of another program, not a store: choose another path")
        version = _pragma(db, "user_version")
        if version > VERSION:
            raise StoreError(
                f"the store {path} has schema {version} of a newer gradsurgery, this one knows {VERSION}: "
                "pip install --upgrade gradsurgery, or choose another path"
            )


def _connect(path: Path, patience: float, mode: str) -> sqlite3.Connection:
    """A connection in SQLite's mode ``ro``, ``rw`` or ``rwc``."""
    uri = f"{path.as_uri()}?mode={mode}"
    if is_read_only(path) and not path.with_name(f"{path.name}-wal").exists():
        uri += "&immutable=1"  # otherwise SQLite creates files beside it even to read
    return sqlite3.connect(uri, uri=True, timeout=patience, isolation_level=None, check_same_thread=False)


def _open(path: Path, patience: float) -> sqlite3.Connection:
    if is_read_only(path):
        return _connect(path, patience, "ro")
    db = _connect(path, patience, "rwc")
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("BEGIN IMMEDIATE")
        if not _pragma(db, "user_version"):  # inside the transaction: another process may be creating the schema
            for statement in _SCHEMA:
                db.execute(statement)
        db.execute("COMMIT")
        db.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        db.close()
        raise
    return db


def _pragma(db: sqlite3.Connection, name: str) -> Any:
    return db.execute(f"PRAGMA {name}").fetchone()[0]


def _code(error: Exception) -> int:
    """SQLite's extended error code, whose last byte is the primary code; 0 if the error is not SQLite's."""
    return getattr(error, "sqlite_errorcode", 0)


def _sentence(error: Exception, path: Path, patience: float) -> str:
    code, number = _code(error) & 0xFF, getattr(error, "errno", None)
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return str(damage_error(path, str(error)))
    full = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)  # no space for the file, or for its shared memory
    if _code(error) in full or number in (errno.ENOSPC, errno.EDQUOT):
        return f"no space is left for the store {path}, what it held before is safe: make room, then start again"
    if code == sqlite3.SQLITE_BUSY:
        return f"another process has locked the store {path} for more than {patience:g} s: end it, then start again"
    if code == sqlite3.SQLITE_CANTOPEN and is_read_only(path):
        return (
            f"the last rows of the store {path} are in {path.name}-wal, and reading them takes permission to write: "
            "copy the folder, then read the copy"
        )
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM) or number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"no permission to write the store {path} and its folder: change that, or choose another path"
    if number in (errno.EEXIST, errno.ENOTDIR):
        return f"the store {path} cannot be created because a part of its path is a file: choose another path"
    reason = getattr(error, "strerror", None) or error
    return f"the store {path} cannot be used ({reason}), what it held before is safe: fix that or choose another path"
