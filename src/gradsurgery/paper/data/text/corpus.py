"""Documents packed into byte windows of one length, for a byte-level language model.

Documents are concatenated in dataset order, as UTF-8, each followed by a zero byte. Window i holds the bytes from
``i * length`` to ``(i + 1) * length`` and one more: the model reads ``length`` bytes and predicts the byte after each,
so every byte is predicted once. Windows ignore document boundaries. Bytes that do not fill the last window are dropped.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gradsurgery.lab import UserError
from gradsurgery.paper.data.cache import cached_folder, memmap
from gradsurgery.paper.data.hub import ColumnStream
from gradsurgery.paper.data.shuffle import evenly_spaced

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]


class Corpus:
    r"""The windows of a text.

    Args:
        data: all bytes of the text, in memory or memory-mapped.
        length: number of bytes that the model reads.
        name: used in error messages.

    Example:
        >>> corpus = Corpus(pack(["ab", "cde"]), length=3)
        >>> [bytes(window) for window in corpus[[0, 1]]]
        [b'ab\x00c', b'cde\x00']
    """

    def __init__(self, data: Bytes, length: int, name: str = "a corpus") -> None:
        self._data, self.length = data, length
        if len(self) == 0:
            raise UserError(f"{name} must be longer than one window of {length} bytes; got {len(data)}")

    def __len__(self) -> int:
        return max(len(self._data) - 1, 0) // self.length

    def __getitem__(self, indices: Any) -> Bytes:
        """Return these windows, (..., length + 1)."""
        first = np.asarray(indices)[..., None] * self.length
        return self._data[first + np.arange(self.length + 1)]

    def evenly_spaced(self, count: int) -> Bytes:
        """Return ``count`` windows at equal distances; all, then the first ones again, if there are fewer."""
        return self[evenly_spaced(max(len(self), count), count) % len(self)]


def pack(documents: Iterable[str]) -> Bytes:
    """Concatenate documents in memory."""
    return np.frombuffer(b"".join(_encode(documents)), np.uint8)


def pack_on_disk(documents: ColumnStream) -> Bytes:
    """Concatenate documents in a cached, memory-mapped file: they may be larger than RAM."""

    def write(folder: Path) -> None:
        with (folder / "bytes").open("wb") as file:
            file.writelines(_encode(documents))

    return memmap(cached_folder(f"UTF-8 {documents.key}", write) / "bytes", np.uint8)


def _encode(documents: Iterable[str]) -> Iterator[bytes]:
    return (document.encode("utf-8", "replace") + b"\0" for document in documents)
