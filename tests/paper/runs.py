"""Single runs of a problem, trained or only traced in this process."""

import os
from importlib import import_module
from pathlib import Path

import jax

from gradsurgery.lab.find import find_problem as problem
from gradsurgery.lab.grid import specs
from gradsurgery.paper.training.training import TrainingState, seed_key
from tests.lab.sweep.recorder import Recorder

DATA = Path(os.environ.get("GRADSURGERY_DATA") or Path(__file__).parents[3] / "shared" / "data")
"""Real data, beside the repository; tests that need it skip where it is absent."""


def make_run(name, scale="demo", *, method="bloop", lam=0.3, rho=0.1, seed=0, **settings):
    """The spec of one run; ``rho`` applies to bloop only."""
    rhos = [rho] if rho is not None and method == "bloop" else None
    (run,) = specs(problem(name), scale, methods=[method], lams=[lam], rhos=rhos, seeds=[seed], settings=settings)
    return run


def build(run, data_dir=None):
    """What trains the run, built anew: some tests change it."""
    name = {"ema": "language"}.get(run.problem, run.problem.replace("-", "_"))
    is_toy = run.problem == "regression"
    module = import_module("tests.paper.training.regression" if is_toy else f"gradsurgery.paper.{name}.train")
    return module.build.__wrapped__(problem(run.problem).typed_settings(run.settings), data_dir)


def train(task, run, chunks=None):
    """Train for this many chunks, all by default; returns the last state and all rows."""
    state, row = task.start(run)
    rows = [row]
    for chunk in range(task.chunks if chunks is None else chunks):
        state, row = task.advance(run, state, chunk)
        rows.append(row)
    return state, rows


def trace_step(task, run):
    """Trace the first step of a ``Training`` without compiling it, and return the shapes of the state before it.

    The state must keep its shapes and types.
    """
    params, extra = jax.eval_shape(task._initial_values, seed_key(run.seed))
    variant = run.method
    optimiser = jax.eval_shape(lambda params: task._optimiser_state(variant, params, run.lam, run.rho), params)
    state, batch = TrainingState(params, extra, optimiser), next(task.batches(run.seed, 0))
    next_state = jax.eval_shape(
        lambda state, batch: task._next_state(variant, state, task.data, batch, run.lam, run.rho), state, batch
    )
    for before, after in zip(jax.tree.leaves(state), jax.tree.leaves(next_state), strict=True):
        assert (before.shape, before.dtype) == (after.shape, after.dtype)
    return state


class Interrupter(Recorder):
    """Interrupts a sweep when this fraction of a run is trained."""

    def __init__(self, at=2.0):
        super().__init__()
        self.at = at

    def run_advanced(self, run, fraction, metrics):
        if fraction >= self.at:
            raise KeyboardInterrupt
