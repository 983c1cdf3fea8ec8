"""Files made from datasets once, and kept in the cache of ``datasets`` for all processes and later sweeps."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

_VERSION = 1
"""One more whenever what is written changes."""


def cached_folder(key: str, write: Callable[[Path], None]) -> Path:
    """The folder of this key, written if it is not there yet; whoever else wants it meanwhile waits.

    Args:
        key: differs whenever the contents do.
        write: writes files into an empty folder; if that is interrupted, the next one begins anew.
    """
    import datasets

    place = Path(datasets.config.HF_DATASETS_CACHE) / "gradsurgery"
    folder = place / hashlib.sha256(f"{_VERSION} {key}".encode()).hexdigest()[:24]
    place.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            write(part)
            for path in part.iterdir():
                with path.open("rb") as file:  # a power cut must not leave a folder whose files are not whole
                    os.fsync(file.fileno())
            os.replace(part, folder)
    return folder


def memmap(path: Path, kind: Any) -> Any:
    """The numbers of a file, read from it where they are looked at: they may be more than fits in memory."""
    return np.memmap(path, kind, mode="r") if path.stat().st_size else np.empty(0, kind)
