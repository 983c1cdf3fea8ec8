"""The surgery of bloop in JAX, inside jit with the state donated, against its memory traffic."""

import math
import time

import jax
import jax.numpy as jnp
import numpy as np

import gradsurgery as gs
import gradsurgery.jax as gsj
from benchmarks.harness import Action, Measure, Plan, in_place_add, interleaved, ratios

STEPS = 8
WORDS = 11
"""As in PyTorch, and three more: as in training, a step of gradient descent reads the direction and the parameters, and
writes them."""


def measure(plan: Plan) -> list[Measure]:
    """The lines of the table."""
    # kernels of convolutions as Flax has them: the channels last
    shapes = [shape[2:] + shape[1::-1] if len(shape) == 4 else shape for shape in plan.shapes()]
    chance = np.random.default_rng(0)
    trees = [[jnp.asarray(chance.normal(size=shape), jnp.float32) for shape in shapes] for _ in range(3)]
    words = sum(map(math.prod, shapes))
    began = time.perf_counter()
    step = stepping(trees, gs.bloop(lam=0.1))
    compiling = time.perf_counter() - began
    rivals = {"floor": in_place_add(STEPS * WORDS * words), "jax": step, "call": calling(trees, gs.bloop(lam=0.1))}
    seconds = interleaved(rivals, plan.repetitions)
    single = [ratio * STEPS * WORDS / (WORDS - 3) for ratio in ratios(seconds, "call", "floor")]
    return [
        Measure("jax: a step within jit", ratios(seconds, "jax", "floor"), "traffic", at_most=1.8),
        Measure("jax: compilation", [compiling], "seconds", at_most=20),
        Measure(
            "jax: a jitted call for the surgery alone", single, "traffic", note="allocates memory for the direction"
        ),
    ]


def stepping(trees: list[list[jax.Array]], method: gs.Method) -> Action:
    """Steps of gradient descent along the direction, compiled."""
    tx = gsj.surgery(method)
    main, aux, params = trees

    def steps(params: list[jax.Array], state: gsj.SurgeryState) -> tuple[list[jax.Array], gsj.SurgeryState]:
        def step(carry: tuple, _: None) -> tuple[tuple, None]:
            params, state = carry
            # the gradients are those of this step: XLA must not work on them before the loop
            gradients, _ = jax.lax.optimization_barrier(((main, aux), state.steps))
            direction, state = tx.update(gradients[0], state, params, aux=gradients[1])
            return (jax.tree.map(lambda p, d: p - 1e-3 * d, params, direction), state), None

        return jax.lax.scan(step, (params, state), length=STEPS)[0]

    held = [jax.tree.map(jnp.copy, params), tx.init(params)]
    compiled = jax.jit(steps, donate_argnums=(0, 1)).lower(*held).compile()

    def run() -> None:
        held[:] = compiled(*held)
        jax.block_until_ready(held)

    return run


def calling(trees: list[list[jax.Array]], method: gs.Method) -> Action:
    """The surgery alone as a function of its own, its state donated."""
    tx = gsj.surgery(method)
    main, aux, params = trees
    update = jax.jit(lambda main, aux, state: tx.update(main, state, aux=aux), donate_argnums=2)
    held = [tx.init(params)]

    def run() -> None:
        direction, held[0] = update(main, aux, held[0])
        jax.block_until_ready((direction, held[0]))

    return run
