"""Linear regression with a penalty on the weights as aux: a ``Training`` that compiles in a moment.

As a program, the command line with this problem.
"""

import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gradsurgery.lab.problem import Scale, problem
from gradsurgery.lab.settings import Count, Switch
from gradsurgery.paper.training.batch_slices import BatchSlices
from gradsurgery.paper.training.training import Training
from tests.lab.sweep.toy import install

BATCH, WIDTH = 8, 16


@dataclass(frozen=True, kw_only=True)
class Settings:
    chunks: Count = 4
    steps: Count = 3
    scan: Switch = True
    sharded: Switch = False
    sleep: float = 0.0
    """Seconds that each batch takes."""


def random_batch(seed, step):
    return np.random.default_rng([seed, step]).normal(size=(BATCH, WIDTH)).astype(np.float32)


def make_task(batches, *, scan, chunks=4, steps=3, sharded=False, final_metrics=None):
    def main(params, extra, data, batch):
        return jnp.mean((batch @ (params - data)) ** 2), {"steps": extra["steps"] + 1}

    def aux(params, extra, data, batch):
        return jnp.sum(params**2), extra

    return Training(
        init=lambda key: (jax.random.normal(key, (WIDTH,)), {"steps": jnp.zeros((), int)}),
        losses=(main, aux),
        data=np.linspace(0, 1, WIDTH, dtype=np.float32),
        batches=batches,
        optimiser=lambda lam: optax.sgd(0.05),
        evaluate=jax.jit(
            lambda params, extra, data: {
                "main_train": jnp.sum((params - data) ** 2),
                "aux_train": jnp.sum(params**2),
                "steps": extra["steps"],
            }
        ),
        chunks=chunks,
        steps=steps,
        scan=scan,
        sharded=sharded,
        final_metrics=final_metrics,
    )


@lru_cache(maxsize=1)
def build(settings, data_dir):
    # without scan, each process makes its own slice of a batch
    rows = slice(None) if settings.scan else BatchSlices(BATCH, BATCH).training

    def batches(seed, start):
        for step in count(start):
            time.sleep(settings.sleep)
            yield random_batch(seed, step)[rows]

    return make_task(
        batches, scan=settings.scan, chunks=settings.chunks, steps=settings.steps, sharded=settings.sharded
    )


def train_regression(run):
    yield from build(run.settings, run.data_dir).train(run)


REGRESSION = problem(
    name="regression",
    title="linear regression",
    main="squared error",
    aux="squared weights",
    scales={"demo": Scale(Settings(), methods=("bloop",), lams=(0.1,), rhos=(0.1,))},
)(train_regression)
REFERENCE = "tests.paper.training.regression:REGRESSION"


if __name__ == "__main__":
    from gradsurgery.lab.cli import main

    install(dict.__setitem__, "regression", REFERENCE)
    sys.exit(main())
