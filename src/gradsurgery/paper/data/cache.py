"""Files computed from datasets once and shared by all processes and later sweeps, in the cache of ``datasets``."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

_VERSION = 1
"""Increment when the format of any cached file changes."""


def cached_folder(key: str, write: Callable[[Path], None]) -> Path:
    """Return the folder for this key, writing it first if needed; concurrent callers wait for the writer.

    Args:
        key: must differ whenever the contents do.
        write: writes files into the empty folder it is given. If it is interrupted, the next call starts over.
    """
    import datasets

    root = Path(datasets.config.HF_DATASETS_CACHE) / "gradsurgery"
    folder = root / hashlib.sha256(f"{_VERSION} {key}".encode()).hexdigest()[:24]
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            unfinished = folder.with_suffix(".part")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            write(unfinished)
            for path in unfinished.iterdir():
                with path.open("rb") as file:  # after a power cut the folder must not exist with incomplete files
                    os.fsync(file.fileno())
            os.replace(unfinished, folder)
    return folder


def memmap(path: Path, dtype: Any) -> Any:
    """Map a file of numbers into memory: it may be larger than RAM. Unlike ``np.memmap``, accepts an empty file."""
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)
