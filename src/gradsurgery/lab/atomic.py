"""Write files atomically (a reader sees the old file or the new one, never half of one), under safe names."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside ``path``, which replaces it at the end of the block unless that raises.

    Folders are created as needed.

    Raises:
        OSError: if the file cannot be written, for example because the disk is full. The message names ``path``, which
            keeps its old content.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the content of a file; see ``replace_file``."""
    with replace_file(path) as temporary:
        temporary.write_bytes(content)


def file_name(text: str) -> str:
    """A name that stays in its folder: no separators, and neither empty nor dots alone."""
    name = re.sub(r"[^\w.=+-]", "_", text)
    return name if name.strip(".") else "_" * max(len(name), 1)
