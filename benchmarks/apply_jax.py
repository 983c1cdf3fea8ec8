"""Bloop in JAX, inside jit with the state donated, relative to its memory traffic."""

import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import gradsurgery as gs
import gradsurgery.jax as gsj
from benchmarks.harness import Action, Measure, Plan, in_place_add, interleaved, ratios

STEPS = 32
WORDS = 11
"""Words of traffic per parameter: those of the PyTorch benchmark, plus three for gradient descent, which reads the
direction and the parameters and writes the parameters. The time to compute the gradients is subtracted."""

Factors = list[tuple[jax.Array, jax.Array]]


def measure(plan: Plan) -> list[Measure]:
    """Measure the lines of the table."""
    # convolution kernels in Flax's layout, channels last
    shapes = [shape[2:] + shape[1::-1] if len(shape) == 4 else shape for shape in plan.shapes()]
    params = [jnp.zeros(shape) for shape in shapes]
    words = sum(map(math.prod, shapes))
    add = in_place_add(WORDS * words)
    start = time.perf_counter()
    step = stepping(params, gs.bloop(lam=0.1))
    compiling = time.perf_counter() - start
    rivals = {
        "floor": lambda: [add() for _ in range(STEPS)],
        "jax": step,
        "gradients": making(params),
        "call": calling(params, gs.bloop(lam=0.1), "state"),
        "call, aux donated": calling(params, gs.bloop(lam=0.1), "state", "aux"),
    }
    seconds = interleaved(rivals, (plan.repetitions + 1) // 2)
    surgery = [
        a - b for a, b in zip(ratios(seconds, "jax", "floor"), ratios(seconds, "gradients", "floor"), strict=True)
    ]
    return [
        Measure("jax: a step within jit", surgery, "traffic", at_most=1.8),
        Measure("jax: compilation", [compiling], "seconds", at_most=20),
        Measure(
            "jax: compilation of two levels and Adam, 600 leaves",
            [seconds_to_compile(gs.bloop(lam=(0.1, 0.01)), 12 if plan.quick else 600)],
            "seconds",
            at_most=15,
        ),
        *(
            Measure(
                f"jax: a {way} for the surgery alone",
                [ratio * STEPS * WORDS / (WORDS - 3) for ratio in ratios(seconds, way, "floor")],
                "traffic",
            )
            for way in rivals
            if way.startswith("call")
        ),
    ]


def seconds_to_compile(method: gs.Method, leaves: int) -> float:
    """The time to trace and compile an update with Adam, for as many matrices as vectors."""
    tx = optax.chain(gsj.surgery(method), optax.adam(1e-3))
    params = [jnp.zeros((256, 256) if index % 2 else (256,)) for index in range(leaves)]
    start = time.perf_counter()
    update = jax.jit(tx.update, donate_argnums=1)
    update.lower(params, tx.init(params), params, aux=(params,) * (method.aux_count or 1)).compile()
    return time.perf_counter() - start


def factors(params: list[jax.Array], seed: int) -> Factors:
    """For two examples and each layer: its input, and the gradient of its output."""
    rng = np.random.default_rng(seed)
    widths = [(param.size // param.shape[-1], param.shape[-1]) for param in params]
    return [(*(jnp.asarray(rng.normal(size=(2, width)), jnp.float32) for width in pair),) for pair in widths]


def gradient(factors: Factors, params: list[jax.Array], step: jax.Array) -> list[jax.Array]:
    """The gradient of each layer; it depends on the step, or XLA would compute it only once."""
    return [((a + 1e-6 * step).T @ b).reshape(like.shape) for (a, b), like in zip(factors, params, strict=True)]


def stepping(params: list[jax.Array], method: gs.Method) -> Action:
    """Compiled steps of gradient descent along the direction."""
    tx = gsj.surgery(method)

    def step(params: list[jax.Array], state: gsj.SurgeryState, main: list[jax.Array], aux: list[jax.Array]) -> tuple:
        direction, state = tx.update(main, state, params, aux=aux)
        return jax.tree.map(lambda p, d: p - 1e-3 * d, params, direction), state

    return repeated(step, params, tx.init(params))


def making(params: list[jax.Array]) -> Action:
    """Only the gradients of as many steps."""
    return repeated(lambda _, __, main, aux: (main, aux), params, params)


def repeated(step: Callable[..., tuple], params: list[jax.Array], state: Any) -> Action:
    """Several steps as one compiled function that reuses the memory of its input."""
    main_and_aux = factors(params, 0), factors(params, 1)

    def steps(carry: tuple, main: Factors, aux: Factors) -> tuple:
        def body(carry: tuple, count: jax.Array) -> tuple[tuple, None]:
            return step(*carry, gradient(main, params, count), gradient(aux, params, count)), None

        return jax.lax.scan(body, carry, jnp.arange(STEPS))[0]

    carry = jax.tree.map(jnp.copy, (params, state))
    compiled = jax.jit(steps, donate_argnums=0).lower(carry, *main_and_aux).compile()

    def run() -> None:
        nonlocal carry
        carry = jax.block_until_ready(compiled(carry, *main_and_aux))

    return run


def calling(params: list[jax.Array], method: gs.Method, *donated: str) -> Action:
    """The surgery as a jitted function of its own, with these arguments donated."""
    tx = gsj.surgery(method)
    main, aux = (gradient(factors(params, seed), params, jnp.zeros(())) for seed in (0, 1))
    update = jax.jit(lambda main, aux, state: tx.update(main, state, aux=aux), donate_argnames=donated)
    state = tx.init(params)

    def prepare() -> Action:
        aux_copy = jax.block_until_ready(jax.tree.map(jnp.copy, aux))  # it may be donated

        def run() -> None:
            nonlocal state
            _, state = jax.block_until_ready(update(main, aux_copy, state))

        return run

    return prepare
