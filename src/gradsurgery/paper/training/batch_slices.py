"""The slice of each batch that a process makes, where several train together."""

import math

import jax

from gradsurgery.lab import UserError


class BatchSlices:
    """The slice of each batch that this process makes; all of it if there is only one process.

    Args:
        batch: examples in a training step.
        evaluated: maximum number of examples in an evaluation; slightly fewer if they do not divide into equal batches.
    """

    def __init__(self, batch: int, evaluated: int) -> None:
        devices = len(jax.devices())
        if batch % devices or evaluated < devices:
            raise UserError(
                f"{devices} devices share each batch, so the batch must be a multiple of {devices} and at least "
                f"{devices} examples must be evaluated; got a batch of {batch} and {evaluated} evaluated"
            )
        fewest = math.ceil(evaluated / batch)
        equal = (count for count in range(fewest, 2 * fewest + 1) if evaluated % (count * devices) == 0)
        batches = next(equal, fewest)
        size = evaluated // batches // devices * devices
        self.training = _local_slice(batch)
        """Of a training batch."""
        self.evaluation = batches * size, size, _local_slice(size)
        """Examples to evaluate, examples in each batch, and the slice of that batch."""


def _local_slice(batch: int) -> slice:
    size = batch // jax.process_count()
    return slice(jax.process_index() * size, (jax.process_index() + 1) * size)
