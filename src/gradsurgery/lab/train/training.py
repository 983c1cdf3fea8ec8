"""Training by gradients: a step of a method with an optimiser, compiled once for all weights and seeds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

import gradsurgery as gs
import gradsurgery.jax as gsj
from gradsurgery.lab.problem import Outcome, Task
from gradsurgery.lab.run import Metrics
from gradsurgery.lab.train.sharding import Placement

Tree = Any
Loss = Callable[[Tree, Tree, Tree, Tree], tuple[jax.Array, Tree]]
"""(params, extra, data, batch) -> the loss, and extra after it."""


class TrainingState(NamedTuple):
    """A run between two chunks."""

    params: Tree
    extra: Tree
    """What the model carries along but does not train: batch statistics, vectors of a power iteration."""
    optimiser: Tree


class Training(Task):
    """A task that follows the direction of a method with an optimiser; how its steps are called is left open.

    Args:
        init: ``key -> (params, extra)``.
        losses: main, then the auxiliary losses; each gets ``extra`` as the one before it left it.
        data: arrays that losses and evaluation read, kept on the device.
        data_axis: the axis along which several devices share them; None for a copy on each.
        optimiser: ``lam -> optax transformation``; lam may be traced.
        chunks: chunks in a run.
        steps: steps in a chunk.
        final_metrics: ``(params, extra) -> conclusion`` of a run, on the host.
        sharded: whether the state is split over the devices, and not on each of them.
    """

    def __init__(
        self,
        *,
        init: Callable[[jax.Array], tuple[Tree, Tree]],
        losses: Sequence[Loss],
        data: Tree,
        data_axis: int | None = None,
        optimiser: Callable[[Any], optax.GradientTransformation],
        chunks: int,
        steps: int,
        final_metrics: Callable[[Tree, Tree], Outcome] | None = None,
        sharded: bool = False,
    ) -> None:
        self.chunks, self.steps = chunks, steps
        self._init, self._losses, self._optimiser = init, losses, optimiser
        self._conclude = final_metrics
        self._place = Placement(jax.devices(), sharded=sharded)
        self._data = self._place.batches(data, data_axis)
        self._first = jax.jit(self._optimiser_state, static_argnums=0)

    def final_metrics(self, state: TrainingState) -> Outcome:
        """What is found out at the end of a run alone."""
        return self._conclude(state.params, state.extra) if self._conclude else super().final_metrics(state)

    def step(self, name: str, state: TrainingState, data: Tree, batch: Tree, lam: Any, rho: Any) -> TrainingState:
        """One step by the method of this name."""
        tx = self._transformation(name, lam, rho)
        extra, gradients = state.extra, []
        for loss in self._losses:
            gradient, extra = jax.grad(loss, has_aux=True)(state.params, extra, data, batch)
            gradients.append(gradient)
        main, *aux = gradients
        updates, optimiser = tx.update(main, state.optimiser, state.params, aux=tuple(aux))
        return self._place.state(TrainingState(optax.apply_updates(state.params, updates), extra, optimiser))

    def _begun(self, key: Tree) -> tuple[Tree, Tree]:
        """Parameters, and what the model carries along."""
        params, extra = self._place.state(self._init(jax.random.wrap_key_data(key)))
        return params, extra

    def _optimiser_state(self, name: str, params: Tree, lam: Any, rho: Any) -> Tree:
        """Made within jit, so that no device has to hold the whole of a state that is split."""
        return self._place.state(self._transformation(name, lam, rho).init(params))

    def _transformation(self, name: str, lam: Any, rho: Any) -> optax.GradientTransformationExtraArgs:
        surgery = gsj.surgery(method(name, lam, rho), measure=True)
        return optax.chain(surgery, self._optimiser(0.0 if lam is None else lam))


def method(name: str, lam: Any, rho: Any) -> gs.Method:
    """The method of this name, with such of the two hyperparameters as it has."""
    fields = gs.METHODS[name].__dataclass_fields__
    return gs.METHODS[name](**{key: value for key, value in (("lam", lam), ("rho", rho)) if key in fields})


def seed_key(seed: int) -> np.ndarray[Any, Any]:
    """The key of a seed, as an array of the host, which every process has."""
    return np.asarray(jax.random.key_data(jax.random.key(seed)))


def diagnostics(state: TrainingState) -> dict[str, jax.Array]:
    """What the surgery measured in its last step."""
    return {f"surgery/{key}": value for key, value in gsj.diagnostics(state.optimiser).items()}


def row(step: int, values: Mapping[str, Any]) -> Metrics:
    """What is recorded of a step."""
    return {"step": step, **{name: float(value) for name, value in values.items()}}
