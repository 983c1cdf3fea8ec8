"""Training chunk by chunk, with checkpoints between chunks."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax

from gradsurgery.lab import Metrics, Run, RunSpec, Sample
from gradsurgery.lab.processes import broadcast_from_leader
from gradsurgery.paper.training.checkpoint import Checkpoint


@dataclass(frozen=True)
class Outcome:
    """Results of a finished run beyond its last row."""

    metrics: Metrics = field(default_factory=dict)
    """Added to the last row."""
    samples: tuple[Sample, ...] = ()


class ChunkedTraining(ABC):
    """Training whose state advances chunk by chunk, many steps each. Between chunks it can be saved."""

    chunks: int
    """Chunks in a run."""

    @abstractmethod
    def start(self, run: RunSpec) -> tuple[Any, list[Metrics]]:
        """Return the state before the first chunk, a pytree of arrays, and the rows to record for it."""

    @abstractmethod
    def advance(self, run: RunSpec, state: Any, chunk: int) -> tuple[Any, list[Metrics]]:
        """Train one chunk. Returns the new state and the rows to record."""

    def final_metrics(self, state: Any) -> Outcome:
        """Compute what is too expensive to compute before the end of the run."""
        return Outcome()

    def train(self, run: Run) -> Iterator[Metrics]:
        """Train all chunks that the last checkpoint does not have."""
        run.device = jax.devices()[0].device_kind
        checkpoint, saved = Checkpoint(run.folder), time.monotonic()
        state, rows = self.start(run.spec)
        # committed to its devices, as a restored one is: else a run that continues is compiled again
        state = jax.tree.map(lambda leaf: jax.device_put(leaf, leaf.sharding), state)
        chunk = 0
        if restored := checkpoint.restore(state):
            chunk, state = restored
        while True:
            run.progress = chunk / self.chunks
            yield from rows
            if chunk == self.chunks:
                break
            (due,) = broadcast_from_leader(time.monotonic() - saved >= run.checkpoint_every)
            if due:
                run.flush()
                checkpoint.save(chunk, state)
                saved = time.monotonic()
            state, rows = self.advance(run.spec, state, chunk)
            chunk += 1
        outcome = self.final_metrics(state)
        run.samples = outcome.samples
        yield {**rows[-1], **outcome.metrics}
