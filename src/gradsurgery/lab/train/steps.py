"""Training step by step, evaluated batch by batch: neither the data nor more than a batch has to fit in memory.

Steps are called one by one, so that batches may come from a disk, and as XLA's CPU takes the gradient of a convolution
fifty times as long within a loop. A device does not wait for it: the next batch is made while it is at this one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jax
import numpy as np

from gradsurgery.lab.run import Metrics, RunSpec
from gradsurgery.lab.train.training import Training, TrainingState, Tree, diagnostics, row, seed_key

UNOPTIMISED = {"xla_backend_optimization_level": 0}
"""For what a CPU runs once a run: to compile the random numbers of a residual network well takes seven times longer."""


class StepTraining(Training):
    """Training whose chunks are so many steps and one row.

    Args:
        batches: ``(seed, start) -> batches``, one for each step from ``start`` on; of several processes each makes its
            own part.
        evaluation_batches: ``held_out -> batches`` to evaluate on, of equal sizes.
        measure: ``(params, extra, data, batch) -> metrics``, which are means over the batch.
        others: see ``Training``.
    """

    def __init__(
        self,
        *,
        batches: Callable[[int, int], Iterator[Tree]],
        evaluation_batches: Callable[[bool], Iterable[Tree]],
        measure: Callable[[Tree, Tree, Tree, Tree], Mapping[str, jax.Array]],
        **others: Any,
    ) -> None:
        super().__init__(**others)
        self._batches, self._evaluation_batches = batches, evaluation_batches
        self._begin = jax.jit(self._begun, compiler_options=UNOPTIMISED if jax.default_backend() == "cpu" else None)
        self._measure = jax.jit(measure)
        self._step = jax.jit(self._stepped, static_argnums=0, donate_argnums=1)
        self._under_way: tuple[RunSpec, int, Iterator[Tree]] | None = None

    def start(self, run: RunSpec) -> tuple[TrainingState, list[Metrics]]:
        """The state before the first step."""
        params, extra = self._begin(seed_key(run.seed))
        state = TrainingState(params, extra, self._first(run.method, params, run.lam, run.rho))
        return state, [self._seen(state, 0)]

    def advance(self, run: RunSpec, state: TrainingState, chunk: int) -> tuple[TrainingState, list[Metrics]]:
        """The state after this chunk's steps."""
        batches = self._from(run, chunk)
        before = None
        for _ in range(self.steps):
            batch = self._place.own(next(batches))
            state, mark = self._step(run.method, state, self._data, batch, run.lam, run.rho)
            # one step ahead of the device and no more: a batch takes memory there
            jax.block_until_ready(before)  # type: ignore[no-untyped-call]
            before = mark
        if chunk + 1 < self.chunks:
            self._under_way = run, chunk + 1, batches
        return state, [self._seen(state, (chunk + 1) * self.steps)]

    def _stepped(self, name: str, state: TrainingState, *others: Any) -> tuple[TrainingState, jax.Array]:
        """The state after a step, and something to wait for, as the state itself is given to the next one."""
        state = self.step(name, state, *others)
        return state, diagnostics(state)["surgery/sound"]

    def _from(self, run: RunSpec, chunk: int) -> Iterator[Tree]:
        """The batches from this chunk on: those that are under way, if it is the next one."""
        under_way, self._under_way = self._under_way, None  # a chunk that is broken off leaves nothing under way
        if under_way and under_way[:2] == (run, chunk):
            return under_way[2]
        return self._batches(run.seed, chunk * self.steps)

    def _seen(self, state: TrainingState, step: int) -> Metrics:
        found: dict[str, Any] = dict(diagnostics(state))
        for split, held_out in (("train", False), ("test", True)):
            rows = [
                jax.device_get(self._measure(state.params, state.extra, self._data, self._place.own(batch)))
                for batch in self._evaluation_batches(held_out)
            ]
            found |= {f"{name}_{split}": np.mean([one[name] for one in rows], dtype=np.float64) for name in rows[0]}
        return row(step, found)
