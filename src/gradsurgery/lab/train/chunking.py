"""Which part of each batch a process makes, where several train together; one alone makes all of it."""

import math
from collections.abc import Mapping

import jax

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.run import Setting


class Parts:
    """The parts of batches that are this process's own.

    Args:
        settings: ``batch``, the examples of a step, and ``evaluated``, those of an evaluation of each set, or a few
            less where no batches of equal size would hold them all.
    """

    def __init__(self, settings: Mapping[str, Setting]) -> None:
        batch, number = int(settings["batch"]), int(settings["evaluated"])
        devices = len(jax.devices())
        if batch % devices or number < devices:
            raise UserError(
                f"{devices} devices share each batch, so that it is a multiple of them, and no fewer are evaluated, "
                f"but got a batch of {batch} and {number} evaluated"
            )
        least = math.ceil(number / batch)
        equal = (count for count in range(least, 2 * least + 1) if number % (count * devices) == 0)
        batches = next(equal, least)
        size = number // batches // devices * devices
        self.trained = _own(batch)
        """Of a batch to train on."""
        self.evaluated = batches * size, size, _own(size)
        """How many examples are evaluated, in batches of which size, and the part of these."""


def _own(batch: int) -> slice:
    each = batch // jax.process_count()
    return slice(jax.process_index() * each, (jax.process_index() + 1) * each)
