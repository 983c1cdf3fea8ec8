"""Training with many steps in one call into XLA: the quickest way where batches are small."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.run import Metrics, RunSpec, Setting
from gradsurgery.lab.train.prefetch import Prefetcher
from gradsurgery.lab.train.training import Training, TrainingState, Tree, diagnostics, row, seed_key


class LoopTraining(Training):
    """Training whose chunks are loops within XLA, evaluation included.

    Not for convolutions: XLA's CPU takes their gradients fifty times as long in a loop.

    Args:
        batches: ``(seed, chunk) -> batches`` for one chunk, with a first axis of ``steps`` (made on the host).
        evaluate: ``(params, extra, data) -> metrics``.
        rows: rows recorded in a chunk; a divisor of ``steps``.
        others: see ``Training``.
    """

    def __init__(
        self,
        *,
        batches: Callable[[int, int], Tree],
        evaluate: Callable[[Tree, Tree, Tree], Mapping[str, jax.Array]],
        rows: int = 1,
        **others: Any,
    ) -> None:
        super().__init__(**others)
        assert self.steps % rows == 0, (self.steps, rows)
        self._batches, self._evaluate, self._rows = Prefetcher(batches, self.chunks), evaluate, rows
        self._begin = jax.jit(self._begun_and_seen)
        self._advance = jax.jit(self._advanced, static_argnums=0, donate_argnums=1)

    def start(self, run: RunSpec) -> tuple[TrainingState, list[Metrics]]:
        """The state before the first step."""
        params, extra, seen = self._begin(seed_key(run.seed), self._data)
        state = TrainingState(params, extra, self._first(run.method, params, run.lam, run.rho))
        return state, [row(0, {**seen, **diagnostics(state)})]

    def advance(self, run: RunSpec, state: TrainingState, chunk: int) -> tuple[TrainingState, list[Metrics]]:
        """The state after this chunk's steps."""
        each = self.steps // self._rows
        batches = jax.tree.map(
            lambda leaf: leaf.reshape(self._rows, each, *leaf.shape[1:]), self._batches(run.seed, chunk)
        )
        batches = self._place.batches(batches, axis=2)
        state, seen = self._advance(run.method, state, self._data, batches, run.lam, run.rho)
        seen = jax.tree.map(np.asarray, seen)
        done = chunk * self.steps
        return state, [
            row(done + (index + 1) * each, {name: values[index] for name, values in seen.items()})
            for index in range(self._rows)
        ]

    def _begun_and_seen(self, key: Tree, data: Tree) -> tuple[Tree, Tree, Mapping[str, jax.Array]]:
        """What a run starts with, and its first evaluation: the same for all methods."""
        params, extra = self._begun(key)
        return params, extra, self._evaluate(params, extra, data)

    def _advanced(
        self, name: str, state: TrainingState, data: Tree, batches: Tree, lam: Any, rho: Any
    ) -> tuple[TrainingState, Tree]:
        """The state after a chunk by the method of this name, and what was seen of it, row by row."""

        def stretch(state: TrainingState, batches: Tree) -> tuple[TrainingState, dict[str, jax.Array]]:
            state, _ = jax.lax.scan(
                lambda state, batch: (self.step(name, state, data, batch, lam, rho), None), state, batches
            )
            return state, {**self._evaluate(state.params, state.extra, data), **diagnostics(state)}

        return jax.lax.scan(stretch, state, batches)


def parts(settings: Mapping[str, Setting]) -> tuple[int, int]:
    """The chunks of a run and the steps in each, from its ``steps`` and the ``rows`` to record of them."""
    steps, rows = int(settings["steps"]), int(settings["rows"])
    chunks = min(rows, steps)
    if steps % chunks:
        raise UserError(f"steps are a multiple of rows, but got {steps} steps and {rows} rows")
    return chunks, steps // chunks
