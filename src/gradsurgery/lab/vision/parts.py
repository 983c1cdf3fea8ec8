"""Which part of each batch a process makes, where several train together; one alone makes all of it."""

from collections.abc import Mapping

import jax

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.record import Setting


class Parts:
    """The parts of batches that are this process's own.

    Args:
        settings: ``batch``, the examples of a step, and ``evaluated``, those of an evaluation of each set.
    """

    def __init__(self, settings: Mapping[str, Setting]) -> None:
        batch, number = int(settings["batch"]), int(settings["evaluated"])
        processes, devices = jax.process_count(), len(jax.devices())
        if processes > 1 and batch % devices:
            raise UserError(f"{devices} devices share a batch, so it is a multiple of them, but got {batch}")
        fitting = [size for size in range(1, batch + 1) if number % size == 0 and size % devices == 0]
        if processes > 1 and not fitting:
            raise UserError(f"{devices} devices share what is evaluated, so it is a multiple of them, but got {number}")
        size = max(fitting or [size for size in range(1, batch + 1) if number % size == 0])
        self.trained = _own(batch)
        """Of a batch to train on."""
        self.evaluated = number, size, _own(size)
        """How many examples are evaluated, in batches of which size, and the part of these."""


def _own(batch: int) -> slice:
    each = batch // jax.process_count()
    return slice(jax.process_index() * each, (jax.process_index() + 1) * each)
