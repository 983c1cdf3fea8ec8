"""Training by gradients: many steps in a call into XLA, compiled once for all weights and seeds of a method."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

import gradsurgery as gs
import gradsurgery.jax as gsj
from gradsurgery.lab.ahead import Ahead
from gradsurgery.lab.errors import UserError
from gradsurgery.lab.placement import Placement
from gradsurgery.lab.problem import Conclusion, Task
from gradsurgery.lab.record import Metrics, RunSpec, Setting

Tree = Any
Loss = Callable[[Tree, Tree, Tree, Tree], tuple[jax.Array, Tree]]
"""(params, extra, data, batch) -> the loss, and extra after it."""


class TrainingState(NamedTuple):
    """A run between two calls."""

    params: Tree
    extra: Tree
    """What the model carries along but does not train: batch statistics, vectors of a power iteration."""
    optimiser: Tree


class Training(Task):
    """A task that follows the direction of a method with an optimiser.

    Args:
        init: ``key -> (params, extra)``.
        losses: main, then the auxiliary losses; each gets ``extra`` as the one before it left it.
        data: arrays that losses and evaluation read, kept on the device.
        data_axis: the axis along which several devices share them; None for a copy on each.
        batches: ``(seed, call) -> batches`` for one call, with a first axis of ``steps`` (made on the host).
        optimiser: ``lam -> optax transformation``; lam may be traced.
        evaluate: ``(params, extra, data) -> metrics``.
        calls: calls in a run.
        steps: steps in a call.
        rows: rows recorded in a call; a divisor of ``steps``.
        conclude: ``(params, extra) -> conclusion`` of a run, on the host.
        sharded: whether the state is split over the devices, and not on each of them.
    """

    def __init__(
        self,
        *,
        init: Callable[[jax.Array], tuple[Tree, Tree]],
        losses: Sequence[Loss],
        data: Tree,
        data_axis: int | None = None,
        batches: Callable[[int, int], Tree],
        optimiser: Callable[[Any], optax.GradientTransformation],
        evaluate: Callable[[Tree, Tree, Tree], Mapping[str, jax.Array]],
        calls: int,
        steps: int,
        rows: int = 1,
        conclude: Callable[[Tree, Tree], Conclusion] | None = None,
        sharded: bool = False,
    ) -> None:
        assert steps % rows == 0, (steps, rows)
        self.calls, self.steps, self.rows = calls, steps, rows
        self._init, self._losses, self._batches = init, losses, Ahead(batches, calls)
        self._optimiser, self._evaluate = optimiser, evaluate
        self._conclude = conclude
        self._place = Placement(jax.devices(), sharded=sharded)
        self._data = self._place.batches(jax.device_put(data), data_axis)
        self._begin = jax.jit(self._begun)
        self._first = jax.jit(self._optimiser_state, static_argnums=0)
        self._advances: dict[str, Any] = {}

    def start(self, run: RunSpec) -> tuple[TrainingState, list[Metrics]]:
        """The state before the first step."""
        params, extra, row = self._begin(jax.random.key(run.seed), self._data)
        state = TrainingState(params, extra, self._first(run.method, params, run.lam, run.rho))
        return state, [_row(0, {**row, **_diagnostics(state)})]

    def advance(self, run: RunSpec, state: TrainingState, call: int) -> tuple[TrainingState, list[Metrics]]:
        """The state after this call's steps."""
        if run.method not in self._advances:
            self._advances[run.method] = self._compiled(run.method)
        each = self.steps // self.rows
        batches = jax.tree.map(
            lambda leaf: leaf.reshape(self.rows, each, *leaf.shape[1:]), self._batches(run.seed, call)
        )
        batches = self._place.batches(batches, axis=2)
        state, rows = self._advances[run.method](state, self._data, batches, run.lam, run.rho)
        rows = jax.tree.map(np.asarray, rows)
        done = call * self.steps
        return state, [
            _row(done + (index + 1) * each, {name: values[index] for name, values in rows.items()})
            for index in range(self.rows)
        ]

    def conclude(self, state: TrainingState) -> Conclusion:
        """What is found out at the end of a run alone."""
        return self._conclude(state.params, state.extra) if self._conclude else super().conclude(state)

    def _begun(self, key: jax.Array, data: Tree) -> tuple[Tree, Tree, Mapping[str, jax.Array]]:
        """Parameters, what the model carries along, and their first evaluation: the same for all methods."""
        params, extra = self._place.state(self._init(key))
        return params, extra, self._evaluate(params, extra, data)

    def _optimiser_state(self, name: str, params: Tree, lam: Any, rho: Any) -> Tree:
        """Made within jit, so that no device has to hold the whole of a state that is split."""
        return self._place.state(self._transformation(name, lam, rho).init(params))

    def _transformation(self, name: str, lam: Any, rho: Any) -> optax.GradientTransformationExtraArgs:
        surgery = gsj.surgery(method(name, lam, rho), measure=True)
        return optax.chain(surgery, self._optimiser(0.0 if lam is None else lam))

    def _compiled(self, name: str) -> Any:
        """One call of a run by this method; lam and rho are traced."""

        def advance(state: TrainingState, data: Tree, batches: Tree, lam: Any, rho: Any) -> tuple[TrainingState, Tree]:
            tx = self._transformation(name, lam, rho)

            def step(state: TrainingState, batch: Tree) -> tuple[TrainingState, None]:
                extra, gradients = state.extra, []
                for loss in self._losses:
                    gradient, extra = jax.grad(loss, has_aux=True)(state.params, extra, data, batch)
                    gradients.append(gradient)
                main, *aux = gradients
                updates, optimiser = tx.update(main, state.optimiser, state.params, aux=tuple(aux))
                after = TrainingState(optax.apply_updates(state.params, updates), extra, optimiser)
                return self._place.state(after), None

            def stretch(state: TrainingState, batches: Tree) -> tuple[TrainingState, dict[str, jax.Array]]:
                state, _ = jax.lax.scan(step, state, batches)
                return state, {**self._evaluate(state.params, state.extra, data), **_diagnostics(state)}

            return jax.lax.scan(stretch, state, batches)

        return jax.jit(advance, donate_argnums=0)


def method(name: str, lam: Any, rho: Any) -> gs.Method:
    """The method of this name, with such of the two hyperparameters as it has."""
    fields = gs.METHODS[name].__dataclass_fields__
    return gs.METHODS[name](**{key: value for key, value in (("lam", lam), ("rho", rho)) if key in fields})


def parts(settings: Mapping[str, Setting]) -> tuple[int, int]:
    """The calls of a run and the steps in each, from its ``steps`` and the ``rows`` to record of them."""
    steps, rows = int(settings["steps"]), int(settings["rows"])
    calls = min(rows, steps)
    if steps % calls:
        raise UserError(f"steps are a multiple of rows, but got {steps} steps and {rows} rows")
    return calls, steps // calls


def _diagnostics(state: TrainingState) -> dict[str, jax.Array]:
    return {f"surgery/{key}": value for key, value in gsj.diagnostics(state.optimiser).items()}


def _row(step: int, values: Mapping[str, Any]) -> Metrics:
    return {"step": step, **{name: float(value) for name, value in values.items()}}
