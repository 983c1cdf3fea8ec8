"""A problem that trains in milliseconds, for tests of sweeps; as a program, the command line with this problem."""

import sys
import time
from dataclasses import dataclass
from importlib.metadata import EntryPoint

import jax.numpy as jnp

from gradsurgery.lab.find import installed_problems
from gradsurgery.lab.grid import specs
from gradsurgery.lab.problem import Scale, problem
from gradsurgery.lab.settings import Count
from gradsurgery.paper.training.training import Training


@dataclass(frozen=True, kw_only=True)
class Settings:
    chunks: Count = 4
    sleep: float = 0.0
    elements: Count = 1


class ToyTask(Training):
    """Adds up numbers. With four million elements the result depends on the number of cores."""

    def __init__(self, settings, data_dir):
        self.chunks = settings.chunks
        self._sleep, self._data_dir = settings.sleep, data_dir
        self._values = jnp.sin(jnp.arange(float(settings.elements)))

    def start(self, run):
        return {"sum": jnp.zeros(())}, self._row(0, jnp.zeros(()))

    def advance(self, run, state, chunk):
        time.sleep(self._sleep)
        if self._data_dir and (self._data_dir / f"{run.method}-fails").exists():
            raise RuntimeError(f"{run.method} fails\nhere")
        total = state["sum"] + jnp.sum(self._values * (chunk + 1.0) + run.seed) * run.lam
        return {"sum": total}, self._row(chunk + 1, total)

    def _row(self, step, total):
        return {"step": step, **{name: float(total) for name in ("main_train", "aux_train", "main_test", "aux_test")}}


def train_toy(run):
    yield from ToyTask(run.settings, run.data_dir).train(run)


TOY = problem(
    name="toy",
    title="a toy",
    main="a sum",
    aux="the same sum",
    scales={"demo": Scale(Settings(), methods=("mixed", "pcgrad"), lams=(0.5, 1.0))},
    share_process=True,  # importing jax takes longer than all runs
)(train_toy)


def install(patch, name, reference):
    """Let commands of this process find a problem by name, as if a package offered it."""
    patch(installed_problems(), name, EntryPoint(name, reference, "gradsurgery.problems"))


def toy_runs(**settings):
    """Four runs: two methods with two weights each."""
    return specs(TOY, "demo", settings=settings)


if __name__ == "__main__":
    from gradsurgery.lab.cli import main

    install(dict.__setitem__, "toy", "tests.lab.sweep.toy:TOY")
    sys.exit(main())
