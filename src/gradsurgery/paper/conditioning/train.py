"""``conditioning``: full-batch gradient descent on two quadratics in the plane."""

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gradsurgery.paper.conditioning.problem import NEAR, Settings
from gradsurgery.paper.training.training import Training

START = (1.0, 1.0)
ROWS = 500
"""Maximum number of recorded rows."""


@lru_cache(maxsize=1)
def build(settings: Settings, data_dir: Path | None) -> Training:
    """Prepare training; ``extra`` counts the steps, and holds the number of the first step near the solution."""

    def main(params: jax.Array, extra: dict[str, jax.Array], data: Any, batch: Any) -> tuple[jax.Array, Any]:
        arrived = (extra["iterations"] < 0) & (jnp.linalg.norm(jax.lax.stop_gradient(params)) <= NEAR)
        iterations = jnp.where(arrived, extra["step"], extra["iterations"])
        return params[0] ** 2 / 2, {"step": extra["step"] + 1, "iterations": iterations}

    def aux(params: jax.Array, extra: Any, data: Any, batch: Any) -> tuple[jax.Array, Any]:
        return ((params[0] - 1) ** 2 + params[1] ** 2) / 2, extra

    def evaluate(params: jax.Array, extra: Any, data: Any) -> dict[str, jax.Array]:
        losses = {"main": main(params, extra, None, None)[0], "aux": aux(params, extra, None, None)[0]}
        metrics = {f"{name}_{split}": loss for name, loss in losses.items() for split in ("train", "test")}
        position = {"a": params[0], "b": params[1], "distance": jnp.linalg.norm(params)}
        iterations = jnp.where(extra["iterations"] < 0, jnp.nan, extra["iterations"])
        return {**metrics, **position, "iterations": iterations}

    def batches(seed: int, start: int) -> Iterator[Any]:
        return repeat(np.zeros(()))  # gradients are exact: there is nothing to draw

    chunks = math.gcd(settings.steps, ROWS)
    return Training(
        init=lambda key: (jnp.array(START), {"step": jnp.zeros((), int), "iterations": -jnp.ones((), int)}),
        losses=(main, aux),
        data=(),
        batches=batches,
        optimiser=lambda lam: optax.sgd(settings.learning_rate),
        evaluate=evaluate,
        chunks=chunks,
        steps=settings.steps // chunks,
        scan=True,
    )
