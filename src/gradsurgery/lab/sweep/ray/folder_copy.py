"""Pack the folder of a run into bytes, so that it can move with the run to another machine."""

import io
import shutil
import tarfile
from pathlib import Path


def list_files(folder: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and modification times of all files below a folder: the list changes when a file is written."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [(str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def pack(folder: Path) -> bytes:
    """A folder with all its files as one archive; no bytes if it does not exist or is empty."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return b""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(folder, arcname=".")
    return buffer.getvalue()


def unpack(archive: bytes, folder: Path) -> None:
    """Replace a folder by a packed one. A process that is killed here leaves a complete folder or none."""
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    if archive:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(new, filter="data")
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
