"""Batches made one call ahead by a thread, so that a device does not wait for them."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

Batches = Any


class Ahead:
    """Makes the batches of a call, and begins with those of the next one.

    Args:
        make: ``(seed, call) -> batches``.
        calls: how many there are in a run.
    """

    def __init__(self, make: Callable[[int, int], Batches], calls: int) -> None:
        self._make, self._calls = make, calls
        self._pool = ThreadPoolExecutor(1, "batches")
        self._begun: dict[tuple[int, int], Future[Batches]] = {}

    def __call__(self, seed: int, call: int) -> Batches:
        """The batches of this call."""
        mine = self._begun.pop((seed, call), None) or self._pool.submit(self._make, seed, call)
        self._begun.clear()  # of a run that was not gone on with
        if call + 1 < self._calls:
            self._begun[seed, call + 1] = self._pool.submit(self._make, seed, call + 1)
        return mine.result()
