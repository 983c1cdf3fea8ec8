"""Prepares the batches of the next chunk in a thread while the device works on this one."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

Batches = Any


class Prefetcher:
    """Returns the batches of a chunk by seed and number, and starts to make those of the next one."""

    def __init__(self, make: Callable[[int, int], Batches], chunks: int) -> None:
        self._make, self._chunks = make, chunks
        self._pool = ThreadPoolExecutor(1, "batches")
        self._pending: dict[tuple[int, int], Future[Batches]] = {}

    def __call__(self, seed: int, chunk: int) -> Batches:
        """Return the batches of this chunk."""
        batches = self._pending.pop((seed, chunk), None) or self._pool.submit(self._make, seed, chunk)
        self._pending.clear()  # left over from an abandoned run
        if chunk + 1 < self._chunks:
            self._pending[seed, chunk + 1] = self._pool.submit(self._make, seed, chunk + 1)
        return batches.result()
