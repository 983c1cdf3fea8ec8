"""Write files atomically (a reader sees the old file or the new one, never half of one), under safe names."""

import hashlib
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
    """A name for a file or folder that no other text gets: plain text as it is, any other with a hash.

    Text with capital letters is not plain, as some file systems ignore the case, nor is one of over 100 characters.

    Example:
        >>> [file_name(text) for text in ("walk-default", "../Walk", "walk(1).log")]
        ['walk-default', '.._Walk-6eae8f22', 'walk_1_-10ccd383.log']
    """
    if re.fullmatch(r"[a-z0-9_=+-][a-z0-9_.=+-]{,99}", text):
        return text
    suffix = re.search(r"(\.[a-z]{1,8})?\Z", text)[0]  # type: ignore[index]  # it matches every text
    name = re.sub(r"[^\w.=+-]", "_", text.removesuffix(suffix))[:50]  # up to 200 bytes; file systems take 255
    return f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}{suffix}"
