"""Files made from datasets once, and kept in the cache of ``datasets`` for all processes and later sweeps."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock


def kept(key: str, write: Callable[[Path], None]) -> Path:
    """The file of this key, written if it is not there yet; whoever else wants it meanwhile waits.

    Args:
        key: differs whenever the contents do.
        write: writes the file at a path; if that is interrupted, the next one begins anew.
    """
    import datasets

    folder = Path(datasets.config.HF_DATASETS_CACHE) / "gradsurgery"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / hashlib.sha256(key.encode()).hexdigest()[:24]
    with FileLock(f"{path}.lock"):
        if not path.exists():
            part = path.with_suffix(".part")
            write(part)
            os.replace(part, path)
    return path
