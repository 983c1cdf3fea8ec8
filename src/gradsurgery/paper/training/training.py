"""Training by gradients: steps of a method with an optimiser, compiled once for all weights and seeds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

import gradsurgery.jax as gsj
from gradsurgery.lab import Metrics, RunSpec
from gradsurgery.lab.lam import Tau, lam_number
from gradsurgery.lab.method import make_method
from gradsurgery.paper.training.chunked import ChunkedTraining, Outcome
from gradsurgery.paper.training.prefetch import Prefetcher
from gradsurgery.paper.training.sharding import Placement
from gradsurgery.relative import relative

Tree = Any
Loss = Callable[[Tree, Tree, Tree, Tree], tuple[jax.Array, Tree]]
"""(params, extra, data, batch) -> loss, new extra."""
Batches = Callable[[int, int], Iterator[Tree]]
"""(seed, start) -> the batches from step ``start`` on, one per step, made on the host."""
Evaluation = Mapping[str, Any]

_UNOPTIMISED = {"xla_backend_optimization_level": 0}
"""On a CPU, optimising the random numbers of a residual network takes seven times as long to compile."""


def _relative_from_ratio(_: None, ratios: Sequence[Any]) -> relative:
    lam = object.__new__(relative)  # unchecked: jax also rebuilds trees with placeholders as their leaves
    object.__setattr__(lam, "ratio", ratios[0])
    return lam


jax.tree_util.register_pytree_node(relative, lambda lam: ((lam.ratio,), None), _relative_from_ratio)  # λ is traced
jax.tree_util.register_dataclass(Tau, ["share"], [])


class TrainingState(NamedTuple):
    """A run between two chunks."""

    params: Tree
    extra: Tree
    """Model state that is not trained: batch statistics, vectors of a power iteration."""
    optimiser: Tree


class Training(ChunkedTraining):
    """A task that follows the direction of a method with an optimiser. Each chunk ends with one recorded row.

    Args:
        init: ``key -> (params, extra)``.
        losses: main, then the auxiliary losses; each gets ``extra`` as the previous one returned it.
        data: arrays that losses and evaluation read, kept on the device.
        data_axis: the axis along which they are split over the devices; None for a copy on each.
        batches: ``(seed, start) -> iterator`` of batches. With several processes and without ``scan``, each makes its
            own slice of every batch.
        optimiser: ``lam -> optax transformation``; lam may be traced.
        evaluate: ``(params, extra, data) -> metrics``, compiled with the steps if ``scan``, else called on the host.
        chunks: chunks in a run.
        steps: steps in a chunk.
        scan: True to run a chunk as one loop inside XLA, many times faster for small models. False to dispatch each
            step from Python: for convolutions, whose gradients take XLA's CPU backend 50 times as long inside a loop,
            and for data that does not fit in memory.
        final_metrics: ``(params, extra) -> outcome`` of a run, computed at its end.
        sharded: True to split the state over the devices, False for a copy on each.
    """

    def __init__(
        self,
        *,
        init: Callable[[jax.Array], tuple[Tree, Tree]],
        losses: Sequence[Loss],
        data: Tree,
        data_axis: int | None = None,
        batches: Batches,
        optimiser: Callable[[Any], optax.GradientTransformation],
        evaluate: Callable[[Tree, Tree, Tree], Evaluation],
        chunks: int,
        steps: int,
        scan: bool,
        final_metrics: Callable[[Tree, Tree], Outcome] | None = None,
        sharded: bool = False,
    ) -> None:
        self.chunks, self.steps = chunks, steps
        self._losses, self._optimiser, self._evaluate = losses, optimiser, evaluate
        self._batches, self._final_metrics = batches, final_metrics
        self._placement = Placement(jax.devices(), sharded=sharded)
        self._data = self._placement.place_batches(data, data_axis)
        self._init, self._scan = init, scan
        self._init_optimiser = jax.jit(self._optimiser_state, static_argnums=0)
        # with scan
        self._start = jax.jit(self._start_and_evaluate)
        self._loop = jax.jit(self._loop_and_evaluate, static_argnums=0, donate_argnums=1)
        self._stacked_batches = Prefetcher(self._stack_batches, chunks)
        # without
        options = _UNOPTIMISED if jax.default_backend() == "cpu" else None
        self._initial = jax.jit(self._initial_values, compiler_options=options)
        self._step = jax.jit(self._take_step, static_argnums=0, donate_argnums=1)
        self._unfinished: tuple[RunSpec, int, Iterator[Tree]] | None = None

    def start(self, run: RunSpec) -> tuple[TrainingState, list[Metrics]]:
        key = seed_key(run.seed)
        if self._scan:
            params, extra, metrics = self._start(key, self._data)
        else:
            params, extra = self._initial(key)
            metrics = self._evaluate(params, extra, self._data)
        state = TrainingState(params, extra, self._init_optimiser(run.method, params, run.lam, run.rho))
        return state, [_row(0, {**metrics, **diagnostics(state)})]

    def advance(self, run: RunSpec, state: TrainingState, chunk: int) -> tuple[TrainingState, list[Metrics]]:
        state, metrics = (self._advance_in_loop if self._scan else self._advance_by_steps)(run, state, chunk)
        return state, [_row((chunk + 1) * self.steps, metrics)]

    def final_metrics(self, state: TrainingState) -> Outcome:
        return self._final_metrics(state.params, state.extra) if self._final_metrics else super().final_metrics(state)

    # a chunk as one loop inside XLA, with the evaluation

    def _start_and_evaluate(self, key: Tree, data: Tree) -> tuple[Tree, Tree, Evaluation]:
        params, extra = self._initial_values(key)
        return params, extra, self._evaluate(params, extra, data)

    def _advance_in_loop(self, run: RunSpec, state: TrainingState, chunk: int) -> tuple[TrainingState, Evaluation]:
        batches = self._placement.place_batches(self._stacked_batches(run.seed, chunk), axis=1)
        return self._loop(run.method, state, self._data, batches, run.lam, run.rho)

    def _loop_and_evaluate(
        self, method: str, state: TrainingState, data: Tree, batches: Tree, lam: Any, rho: Any
    ) -> tuple[TrainingState, Evaluation]:
        state, _ = jax.lax.scan(
            lambda state, batch: (self._next_state(method, state, data, batch, lam, rho), None), state, batches
        )
        return state, {**self._evaluate(state.params, state.extra, data), **diagnostics(state)}

    def _stack_batches(self, seed: int, chunk: int) -> Tree:
        """The batches of a chunk, stacked along a first axis."""
        batches = islice(self._batches(seed, chunk * self.steps), self.steps)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *batches)

    # step by step

    def _advance_by_steps(self, run: RunSpec, state: TrainingState, chunk: int) -> tuple[TrainingState, Evaluation]:
        previous = None
        for batch in self._chunk_batches(run, chunk):
            batch = self._placement.place_local_batch(batch)
            state, done = self._step(run.method, state, self._data, batch, run.lam, run.rho)
            # stay one step ahead of the device, not more: each batch takes memory there
            jax.block_until_ready(previous)  # type: ignore[no-untyped-call]
            previous = done
        return state, {**self._evaluate(state.params, state.extra, self._data), **diagnostics(state)}

    def _chunk_batches(self, run: RunSpec, chunk: int) -> Iterator[Tree]:
        """Yield the batches of a chunk, and keep the iterator for the next one: its workers are slow to start."""
        unfinished, self._unfinished = self._unfinished, None  # an interrupted chunk leaves nothing behind
        if unfinished and unfinished[:2] == (run, chunk):
            batches = unfinished[2]
        else:
            batches = self._batches(run.seed, chunk * self.steps)
        yield from islice(batches, self.steps)
        if chunk + 1 < self.chunks:
            self._unfinished = run, chunk + 1, batches

    def _take_step(
        self, method: str, state: TrainingState, data: Tree, batch: Tree, lam: Any, rho: Any
    ) -> tuple[TrainingState, jax.Array]:
        """Return the next state, and a value to wait for: the state itself is donated to the next step."""
        state = self._next_state(method, state, data, batch, lam, rho)
        return state, diagnostics(state)["surgery/sound"]

    # both

    def _next_state(
        self, method: str, state: TrainingState, data: Tree, batch: Tree, lam: Any, rho: Any
    ) -> TrainingState:
        extra, gradients = state.extra, []
        for loss in self._losses:
            gradient, extra = jax.grad(loss, has_aux=True)(state.params, extra, data, batch)
            gradients.append(gradient)
        main, *aux = gradients
        transformation = self._transformation(method, lam, rho)
        updates, optimiser = transformation.update(main, state.optimiser, state.params, aux=tuple(aux))
        return self._placement.place_state(TrainingState(optax.apply_updates(state.params, updates), extra, optimiser))

    def _initial_values(self, key: Tree) -> tuple[Tree, Tree]:
        params, extra = self._placement.place_state(self._init(jax.random.wrap_key_data(key)))
        return params, extra

    def _optimiser_state(self, method: str, params: Tree, lam: Any, rho: Any) -> Tree:
        """Called inside jit, so that no device has to hold all of a sharded state."""
        return self._placement.place_state(self._transformation(method, lam, rho).init(params))

    def _transformation(self, method: str, lam: Any, rho: Any) -> optax.GradientTransformationExtraArgs:
        surgery = gsj.surgery(make_method(method, lam, rho), measure=True)
        return optax.chain(surgery, self._optimiser(0.0 if lam is None else lam_number(lam)))


def seed_key(seed: int) -> np.ndarray[Any, Any]:
    """The random key of a seed as a host array, which every process can pass to a compiled function."""
    return np.asarray(jax.random.key_data(jax.random.key(seed)))


def diagnostics(state: TrainingState) -> dict[str, jax.Array]:
    """The diagnostics of the last step."""
    return {f"surgery/{key}": value for key, value in gsj.diagnostics(state.optimiser).items()}


def _row(step: int, metrics: Evaluation) -> Metrics:
    return {"step": step, **{name: float(value) for name, value in jax.device_get(metrics).items()}}
