"""Training by gradients: steps of a method with an optimiser, compiled once for all weights and seeds."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

import gradsurgery.jax as gsj
from gradsurgery.lab import Metrics, Run, RunSpec, Sample
from gradsurgery.lab.lam import Tau, lam_number
from gradsurgery.lab.method import make_method
from gradsurgery.lab.processes import broadcast_from_leader
from gradsurgery.paper.training.checkpoint import Checkpoint
from gradsurgery.paper.training.prefetch import Prefetcher
from gradsurgery.paper.training.sharding import Placement
from gradsurgery.relative import relative

Tree = Any
Loss = Callable[[Tree, Tree, Tree, Tree], tuple[jax.Array, Tree]]
"""(params, extra, data, batch) -> loss, new extra."""
Batches = Callable[[int, int], Iterator[Tree]]
"""(seed, start) -> the batches from step ``start`` on, one per step, made on the host."""
Evaluation = Mapping[str, Any]
FinalMetrics = Callable[[Tree, Tree], tuple[Metrics, tuple[Sample, ...]]]
"""(params, extra) -> metrics for the last row, and samples."""

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


@dataclass(kw_only=True, eq=False)
class Training:
    """A task that follows the direction of a method with an optimiser, chunk by chunk, many steps each.

    Each chunk ends with one recorded row, and between chunks the state can be saved.
    """

    init: Callable[[jax.Array], tuple[Tree, Tree]]
    """``key -> (params, extra)``."""
    losses: Sequence[Loss]
    """Main, then the auxiliary losses; each gets ``extra`` as the previous one returned it."""
    data: Tree
    """Arrays that losses and evaluation read, kept on the device."""
    data_axis: int | None = None
    """The axis along which they are split over the devices; None for a copy on each."""
    batches: Batches
    """With several processes and without ``scan``, each makes its own slice of every batch."""
    optimiser: Callable[[Any], optax.GradientTransformation]
    """``lam -> optax transformation``; lam may be traced."""
    evaluate: Callable[[Tree, Tree, Tree], Evaluation]
    """``(params, extra, data) -> metrics``, compiled with the steps if ``scan``, else called on the host."""
    chunks: int
    """Chunks in a run."""
    steps: int
    """Steps in a chunk."""
    scan: bool
    """True to run a chunk as one loop inside XLA, many times faster for small models. False to dispatch each step from
    Python: for convolutions, whose gradients take XLA's CPU backend 50 times as long inside a loop, and for data that
    does not fit in memory."""
    final_metrics: FinalMetrics | None = None
    """What is too expensive to compute before the end of a run."""
    sharded: bool = False
    """True to split the state over the devices, False for a copy on each."""

    def __post_init__(self) -> None:
        self._placement = Placement(jax.devices(), sharded=self.sharded)
        self.data = self._placement.place_batches(self.data, self.data_axis)
        self._init_optimiser = jax.jit(self._optimiser_state, static_argnums=0)
        # with scan
        self._start = jax.jit(self._start_and_evaluate)
        self._loop = jax.jit(self._loop_and_evaluate, static_argnums=0, donate_argnums=1)
        self._stacked_batches = Prefetcher(self._stack_batches, self.chunks)
        # without
        options = _UNOPTIMISED if jax.default_backend() == "cpu" else None
        self._initial = jax.jit(self._initial_values, compiler_options=options)
        self._step = jax.jit(self._take_step, static_argnums=0, donate_argnums=1)
        self._unfinished: tuple[RunSpec, int, Iterator[Tree]] | None = None

    def train(self, run: Run) -> Iterator[Metrics]:
        """Train all chunks that the last checkpoint does not have."""
        run.device = jax.devices()[0].device_kind
        checkpoint, saved = Checkpoint(run.folder), time.monotonic()
        state, row = self.start(run.spec)
        # committed to its devices, as a restored one is: else a run that continues is compiled again
        state = jax.tree.map(lambda leaf: jax.device_put(leaf, leaf.sharding), state)
        first, state = checkpoint.restore(state) or (0, state)
        run.progress = first / self.chunks
        yield row
        for chunk in range(first, self.chunks):
            if broadcast_from_leader(time.monotonic() - saved >= run.checkpoint_every):
                run.flush()
                checkpoint.save(chunk, state)
                saved = time.monotonic()
            state, row = self.advance(run.spec, state, chunk)
            run.progress = (chunk + 1) / self.chunks
            yield row
        if self.final_metrics:
            metrics, run.samples = self.final_metrics(state.params, state.extra)
            yield {**row, **metrics}

    def start(self, run: RunSpec) -> tuple[TrainingState, Metrics]:
        """The state before the first chunk, and its row."""
        key = seed_key(run.seed)
        if self.scan:
            params, extra, metrics = self._start(key, self.data)
        else:
            params, extra = self._initial(key)
            metrics = self.evaluate(params, extra, self.data)
        state = TrainingState(params, extra, self._init_optimiser(run.method, params, run.lam, run.rho))
        return state, _row(0, {**metrics, **diagnostics(state)})

    def advance(self, run: RunSpec, state: TrainingState, chunk: int) -> tuple[TrainingState, Metrics]:
        """Train one chunk. Returns the new state and its row."""
        state, metrics = (self._advance_in_loop if self.scan else self._advance_by_steps)(run, state, chunk)
        return state, _row((chunk + 1) * self.steps, metrics)

    # a chunk as one loop inside XLA, with the evaluation

    def _start_and_evaluate(self, key: Tree, data: Tree) -> tuple[Tree, Tree, Evaluation]:
        params, extra = self._initial_values(key)
        return params, extra, self.evaluate(params, extra, data)

    def _advance_in_loop(self, run: RunSpec, state: TrainingState, chunk: int) -> tuple[TrainingState, Evaluation]:
        batches = self._placement.place_batches(self._stacked_batches(run.seed, chunk), axis=1)
        return self._loop(run.method, state, self.data, batches, run.lam, run.rho)

    def _loop_and_evaluate(
        self, method: str, state: TrainingState, data: Tree, batches: Tree, lam: Any, rho: Any
    ) -> tuple[TrainingState, Evaluation]:
        state, _ = jax.lax.scan(
            lambda state, batch: (self._next_state(method, state, data, batch, lam, rho), None), state, batches
        )
        return state, {**self.evaluate(state.params, state.extra, data), **diagnostics(state)}

    def _stack_batches(self, seed: int, chunk: int) -> Tree:
        """The batches of a chunk, stacked along a first axis."""
        batches = islice(self.batches(seed, chunk * self.steps), self.steps)
        return jax.tree.map(lambda *leaves: np.stack(leaves), *batches)

    # step by step

    def _advance_by_steps(self, run: RunSpec, state: TrainingState, chunk: int) -> tuple[TrainingState, Evaluation]:
        previous = None
        for batch in self._chunk_batches(run, chunk):
            batch = self._placement.place_local_batch(batch)
            state, done = self._step(run.method, state, self.data, batch, run.lam, run.rho)
            # stay one step ahead of the device, not more: each batch takes memory there
            jax.block_until_ready(previous)  # type: ignore[no-untyped-call]
            previous = done
        return state, {**self.evaluate(state.params, state.extra, self.data), **diagnostics(state)}

    def _chunk_batches(self, run: RunSpec, chunk: int) -> Iterator[Tree]:
        """Yield the batches of a chunk, and keep the iterator for the next one: its workers are slow to start."""
        unfinished, self._unfinished = self._unfinished, None  # an interrupted chunk leaves nothing behind
        if unfinished and unfinished[:2] == (run, chunk):
            batches = unfinished[2]
        else:
            batches = self.batches(run.seed, chunk * self.steps)
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
        for loss in self.losses:
            gradient, extra = jax.grad(loss, has_aux=True)(state.params, extra, data, batch)
            gradients.append(gradient)
        main, *aux = gradients
        transformation = self._transformation(method, lam, rho)
        updates, optimiser = transformation.update(main, state.optimiser, state.params, aux=tuple(aux))
        return self._placement.place_state(TrainingState(optax.apply_updates(state.params, updates), extra, optimiser))

    def _initial_values(self, key: Tree) -> tuple[Tree, Tree]:
        params, extra = self._placement.place_state(self.init(jax.random.wrap_key_data(key)))
        return params, extra

    def _optimiser_state(self, method: str, params: Tree, lam: Any, rho: Any) -> Tree:
        """Called inside jit, so that no device has to hold all of a sharded state."""
        return self._placement.place_state(self._transformation(method, lam, rho).init(params))

    def _transformation(self, method: str, lam: Any, rho: Any) -> optax.GradientTransformationExtraArgs:
        surgery = gsj.surgery(make_method(method, lam, rho), measure=True)
        return optax.chain(surgery, self.optimiser(0.0 if lam is None else lam_number(lam)))


def seed_key(seed: int) -> np.ndarray[Any, Any]:
    """The random key of a seed as a host array, which every process can pass to a compiled function."""
    return np.asarray(jax.random.key_data(jax.random.key(seed)))


def diagnostics(state: TrainingState) -> dict[str, jax.Array]:
    """The diagnostics of the last step."""
    return {f"surgery/{key}": value for key, value in gsj.diagnostics(state.optimiser).items()}


def _row(step: int, metrics: Evaluation) -> Metrics:
    return {"step": step, **{name: float(value) for name, value in jax.device_get(metrics).items()}}
