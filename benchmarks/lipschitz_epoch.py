"""An epoch of ``lipschitz`` at the scale ``laptop`` against a plain training script.

The plain script computes norms by SVD, dispatches each step from Python, recompiles in every epoch (as a sweep does
that makes lam a compile-time constant), and leaves linear algebra on all cores, which is the default; the lab uses one
thread. The images are noise, which does not change the time.
"""

import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from threadpoolctl import threadpool_limits

import gradsurgery as gs
import gradsurgery.jax as gsj
from benchmarks.harness import Measure, Plan
from gradsurgery.lab.find import find_problem as problem
from gradsurgery.lab.grid import specs
from gradsurgery.paper.data.shuffle import epoch_batches
from gradsurgery.paper.lipschitz import train as lipschitz
from gradsurgery.paper.models import mlp
from gradsurgery.paper.training.training import Training


def measure(plan: Plan) -> list[Measure]:
    """The lines of the table."""
    examples, batch = (512, 256) if plan.quick else (60_000, 256)
    key = jax.random.key(0)
    images, labels = jax.random.normal(key, (examples, 784)), jax.random.randint(key, (examples,), 0, 10)
    data = {"train_images": images, "train_labels": labels, "test_images": images[:100], "test_labels": labels[:100]}
    steps = examples // batch
    task = Training(
        init=lambda key: lipschitz.init(key, 784),
        losses=(lipschitz.main, lipschitz.aux),
        data=data,
        batches=lambda seed, start: lipschitz.shuffled_epochs(examples, batch, steps, seed, start),
        optimiser=lambda lam: optax.adam(3e-4),
        evaluate=lambda params, extra, data: {"weights": sum(jnp.sum(leaf) for leaf in jax.tree.leaves(params))},
        chunks=10,
        steps=steps,
        scan=True,
    )
    run = specs(problem("lipschitz"), "laptop", methods=["bloop"], lams=[0.1], seeds=[0])[0]
    state, _ = task.start(run)
    with_compilation, without_compilation, one_thread = [], [], []
    for epoch in range(2 if plan.quick else 4):
        with threadpool_limits(1, "blas"):  # as in the lab; here another library may have been loaded before it
            start = time.perf_counter()
            state, _ = task.advance(run, state, epoch)
            ours = time.perf_counter() - start
        if epoch == 0:
            continue  # the first epoch compiles
        batches = epoch_batches(examples, batch, 0, epoch)
        with threadpool_limits(plan.threads, "blas"):
            compiling, stepping = plain_epoch(data, batches)
        with_compilation.append((compiling + stepping) / ours)
        without_compilation.append(stepping / ours)
        with threadpool_limits(1, "blas"):
            one_thread.append(sum(plain_epoch(data, batches)) / ours)
    return [
        Measure("an epoch of lipschitz the plain way / ours", with_compilation, "times", at_least=8),
        Measure("the same, the plain way compiled beforehand", without_compilation, "times"),
        Measure("the same, the plain way with one thread for linear algebra", one_thread, "times"),
    ]


def plain_epoch(data: dict[str, jax.Array], batches: Any) -> tuple[float, float]:
    """Seconds to compile, and seconds to train, for one epoch from the start."""
    tx = optax.chain(gsj.surgery(gs.bloop(lam=0.1)), optax.adam(3e-4))

    def aux(params: Any) -> jax.Array:
        return sum((jnp.log(jnp.linalg.norm(layer["weight"], 2)) for layer in params), jnp.zeros(()))

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params: Any, state: Any, images: jax.Array, labels: jax.Array) -> Any:
        main = jax.grad(mlp.cross_entropy)(params, images, labels)
        updates, state = tx.update(main, state, params, aux=jax.grad(aux)(params))
        return optax.apply_updates(params, updates), state

    params, _ = lipschitz.init(jax.random.key(0), 784)
    state = tx.init(params)
    images, labels = data["train_images"], data["train_labels"]
    start = time.perf_counter()
    compiled = step.lower(params, state, images[batches[0]], labels[batches[0]]).compile()
    compiled_at = time.perf_counter()
    for batch in batches:
        params, state = compiled(params, state, images[batch], labels[batch])
    jax.block_until_ready(params)
    return compiled_at - start, time.perf_counter() - compiled_at
