"""Leases of runs: kernel locks on small files, which end with the process that holds them."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def lease(store: Path, key: str) -> Iterator[bool]:
    """Lease a run of a SQLite file until the block ends: True if it is ours, False if another process has it."""
    folder = lease_folder(store)
    path = folder / f"{key}.lock"
    lock = FileLock(path, thread_local=False)
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire(timeout=0)
            break
        except Timeout:
            if path.exists():
                break
        except (FileNotFoundError, FileExistsError):  # mkdir raises both if the folder is gone before it looks at it
            if folder.is_file():
                raise
        # another process has just removed the file or the empty folder: try again
    try:
        yield lock.is_locked
    finally:
        if lock.is_locked:
            # while it is locked: a process that has opened the file but not locked it yet sees that it is gone
            path.unlink(missing_ok=True)
            lock.release()
        with suppress(OSError):  # other leases are in it
            folder.rmdir()


def is_leased(store: Path, key: str) -> bool:
    """True if a process of this machine holds the lease of a run."""
    if not (lease_folder(store) / f"{key}.lock").exists():
        return False
    with lease(store, key) as ours:
        return not ours


def lease_folder(store: Path) -> Path:
    """The folder of a store's leases; it exists while there are any."""
    return store.with_name(f"{store.name}.leases")
