"""Write files of a report atomically: a reader sees the old file or the new one, never half of one."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file beside the path, then move it into place.

    Raises:
        OSError: if the file cannot be written, for example because the disk is full. The message names the file, which
            keeps its old content.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
