"""Batches made one chunk ahead by a thread, so that a device does not wait for them."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

Batches = Any


class Prefetcher:
    """Makes the batches of a chunk, and begins with those of the next one.

    Args:
        make: ``(seed, chunk) -> batches``.
        chunks: how many there are in a run.
    """

    def __init__(self, make: Callable[[int, int], Batches], chunks: int) -> None:
        self._make, self._chunks = make, chunks
        self._pool = ThreadPoolExecutor(1, "batches")
        self._begun: dict[tuple[int, int], Future[Batches]] = {}

    def __call__(self, seed: int, chunk: int) -> Batches:
        """The batches of this chunk."""
        mine = self._begun.pop((seed, chunk), None) or self._pool.submit(self._make, seed, chunk)
        self._begun.clear()  # of a run that was not gone on with
        if chunk + 1 < self._chunks:
            self._begun[seed, chunk + 1] = self._pool.submit(self._make, seed, chunk + 1)
        return mine.result()
