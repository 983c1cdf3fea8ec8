"""``AuxBatches``: an endless iterator over the auxiliary loader, whose position can be saved."""

from collections.abc import Iterable, Iterator
from typing import Any

from gradsurgery.transformers.random_stream import RandomStream


class AuxBatches(Iterator[Any]):
    """The batches of a loader, epoch after epoch.

    Args:
        loader: the auxiliary loader. If it has ``set_epoch``, each epoch starts with a call of it.
        stream: the random numbers for shuffling and collating.
    """

    def __init__(self, loader: Iterable[Any], stream: RandomStream) -> None:
        self._loader, self._stream = loader, stream
        self._start_epoch(0)

    def __next__(self) -> Any:
        with self._stream:
            batch = next(self._iterator, None)
        if batch is None:
            if self._batch == 0:
                raise ValueError(
                    "aux_dataset yields no batch: with dataloader_drop_last, it must hold a batch for each process"
                )
            self._start_epoch(self._epoch + 1)
            return next(self)
        self._batch += 1
        return batch

    def state_dict(self) -> dict[str, Any]:
        """The position: the epoch, the batches taken from it, and the random numbers at its start."""
        return {"epoch": self._epoch, "batch": self._batch, "random": self._random_at_start}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved position.

        The batches before it are loaded again and dropped: skipping them would change what a collator that masks at
        random, or a worker that augments, draws for the batches after it.
        """
        self._stream.load_state_dict(state["random"])
        self._start_epoch(state["epoch"])
        for _ in range(state["batch"]):
            next(self)

    def _start_epoch(self, epoch: int) -> None:
        self._epoch, self._batch = epoch, 0
        self._random_at_start = self._stream.state_dict()
        if hasattr(self._loader, "set_epoch"):
            self._loader.set_epoch(epoch)
        # Accelerate does not tell a batch sampler that it splits between processes, so do that as Trainer does
        sampler: Any = getattr(getattr(self._loader, "batch_sampler", None), "batch_sampler", None)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
        with self._stream:
            self._iterator = iter(self._loader)
