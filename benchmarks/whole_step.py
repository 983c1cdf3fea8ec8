"""A whole training step on two batches, in PyTorch and in JAX: bloop compared with the sum of the losses."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
import torch
from torch import nn

import gradsurgery as gs
import gradsurgery.jax as gsj
import gradsurgery.torch as gst
from benchmarks.harness import Action, Measure, Plan, interleaved, ratios

LAM = 0.1

SMALL_MODEL = {
    ("torch, the MLP of lipschitz", "bloop, compiled"): 1.08,
    ("torch, the MLP of lipschitz", "bloop, eager"): 1.12,
}
"""What a step of a few milliseconds may cost in PyTorch, where every call from Python counts; elsewhere 1.05."""


def measure(plan: Plan) -> list[Measure]:
    """The lines of the table."""
    lines = []
    for name, problem, rounds in (
        ("torch, transformer of 10 million", torch_transformer(plan), 1),
        ("torch, the MLP of lipschitz", torch_mlp(), 10),  # its steps take milliseconds: noise is large
        ("jax, transformer of 10 million", jax_transformer(plan), 1),
        ("jax, the MLP of lipschitz", jax_mlp(), 10),
    ):
        rivals = (torch_steps if name.startswith("torch") else jax_steps)(*problem)
        seconds = interleaved(rivals, rounds * plan.repetitions)
        lines += [
            Measure(
                f"{name}: whole step, {way}",
                ratios(seconds, way, "mixed"),
                "mixed",
                at_most=SMALL_MODEL.get((name, way), 1.05) if way.startswith("bloop") else None,
            )
            for way in rivals
            if way != "mixed"
        ]
    return lines


def torch_steps(
    model: nn.Module, main: Callable[[], torch.Tensor], aux: Callable[[], torch.Tensor]
) -> dict[str, Action]:
    """A step of Adam by mixed, with one backward pass for each loss or for both, and by bloop, compiled and eager."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-5)

    def step(backward: Action) -> Action:
        def run() -> None:
            backward()
            optimiser.step()
            optimiser.zero_grad()

        return run

    def in_turn() -> None:
        main().backward()
        (LAM * aux()).backward()

    def in_one_pass() -> None:
        (main() + LAM * aux()).backward()  # holds both graphs at once

    def bloop(*, compiled: bool) -> Action:
        surgery = gst.Surgery(model.parameters(), gs.bloop(lam=LAM), compile=compiled)

        def backward() -> None:
            surgery.backward(main, aux)
            surgery.apply()

        return backward

    return {
        "mixed": step(in_turn),
        "mixed, both losses in one pass": step(in_one_pass),
        "bloop, compiled": step(bloop(compiled=True)),
        "bloop, eager": step(bloop(compiled=False)),
    }


def jax_steps(params: Any, main: Callable[[Any], jax.Array], aux: Callable[[Any], jax.Array]) -> dict[str, Action]:
    """The same in JAX."""
    adam = optax.adam(1e-5)
    surgery_and_adam = optax.chain(gsj.surgery(gs.bloop(lam=LAM)), adam)

    def mixed(params: Any, state: Any) -> Any:
        gradient = jax.grad(lambda p: main(p) + LAM * aux(p))(params)
        updates, state = adam.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    def bloop(params: Any, state: Any) -> Any:
        updates, state = surgery_and_adam.update(jax.grad(main)(params), state, params, aux=jax.grad(aux)(params))
        return optax.apply_updates(params, updates), state

    def repeated(step: Callable[[Any, Any], Any], state: Any) -> Action:
        carry = jax.tree.map(jnp.copy, params), state
        compiled = jax.jit(step, donate_argnums=(0, 1))

        def run() -> None:
            nonlocal carry
            carry = jax.block_until_ready(compiled(*carry))

        return run

    return {"mixed": repeated(mixed, adam.init(params)), "bloop": repeated(bloop, surgery_and_adam.init(params))}


def torch_transformer(plan: Plan) -> tuple[nn.Module, Callable[[], torch.Tensor], Callable[[], torch.Tensor]]:
    """A byte-level language model on two batches."""
    width, layers = (32, 1) if plan.quick else (384, 6)
    layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
    body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    model = nn.Sequential(nn.Embedding(256, width), body, nn.Linear(width, 256))
    batches = torch.randint(0, 256, (2, 8, 65))

    def loss(batch: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())

    return model, lambda: loss(batches[0]), lambda: loss(batches[1])


def torch_mlp() -> tuple[nn.Module, Callable[[], torch.Tensor], Callable[[], torch.Tensor]]:
    """A classifier on two batches of 256 images."""
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    images, labels = torch.randn(2, 256, 784), torch.randint(0, 10, (2, 256))

    def loss(index: int) -> torch.Tensor:
        return nn.functional.cross_entropy(model(images[index]), labels[index])

    return model, lambda: loss(0), lambda: loss(1)


def jax_transformer(plan: Plan) -> tuple[Any, Callable[[Any], jax.Array], Callable[[Any], jax.Array]]:
    """As in PyTorch, without biases."""
    width, layers, heads = (32, 1, 4) if plan.quick else (384, 6, 4)
    keys = iter(jax.random.split(jax.random.key(0), 2 + 4 * layers))

    def matrix(n: int, m: int) -> jax.Array:
        return jax.random.normal(next(keys), (n, m)) / n**0.5

    params = {
        "embedding": matrix(256, width),
        "layers": [
            [matrix(width, 3 * width), matrix(width, width), matrix(width, 4 * width), matrix(4 * width, width)]
            for _ in range(layers)
        ],
        "head": matrix(width, 256),
    }
    batches = jax.random.randint(jax.random.key(1), (2, 8, 65), 0, 256)

    def loss(params: Any, batch: jax.Array) -> jax.Array:
        x = params["embedding"][batch[:, :-1]]
        for attention, out, up, down in params["layers"]:
            q, k, v = jnp.split((jax.nn.standardize(x) @ attention).reshape(*x.shape[:2], heads, -1), 3, axis=-1)
            x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ out
            x = x + jax.nn.gelu(jax.nn.standardize(x) @ up) @ down
        logits = x @ params["head"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()

    return params, lambda p: loss(p, batches[0]), lambda p: loss(p, batches[1])


def jax_mlp() -> tuple[Any, Callable[[Any], jax.Array], Callable[[Any], jax.Array]]:
    """As in PyTorch."""
    from gradsurgery.paper.models.mlp import cross_entropy, init

    params = init(jax.random.key(0), 784, 10)
    images = jax.random.normal(jax.random.key(1), (2, 256, 784))
    labels = jax.random.randint(jax.random.key(2), (2, 256), 0, 10)
    return params, lambda p: cross_entropy(p, images[0], labels[0]), lambda p: cross_entropy(p, images[1], labels[1])
