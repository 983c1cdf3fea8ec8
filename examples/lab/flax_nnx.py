"""JAX with Flax NNX: recognise digits (main), with small weights (aux).

    python examples/lab/flax_nnx.py
    gradsurgery sweep examples/lab/flax_nnx.py:small_weights --seeds 0,1,2

The surgery is the first part of the optax chain; ``tx.update`` takes both gradients.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

import gradsurgery.jax as gsj
from gradsurgery import lab


@lab.problem(
    main="cross-entropy",
    aux="half the squared weights",
    settings={"epochs": 5, "learning_rate": 0.2, "batch": 64},
    lams="relative:0.1:1:2log",
    rhos=[0.1],  # short runs need a fast average
    share_process=True,  # a run takes a second, and importing the libraries takes longer
)
def small_weights(run):
    """A small network with small weights."""
    digits = load_digits()
    x, y = digits.data.astype(np.float32) / 16, digits.target
    train, test = np.arange(1297), np.arange(1297, len(x))

    rngs = nnx.Rngs(run.seed)
    model = nnx.Sequential(nnx.Linear(64, 32, rngs=rngs), nnx.relu, nnx.Linear(32, 10, rngs=rngs))
    graph, params = nnx.split(model, nnx.Param)
    tx = optax.chain(gsj.surgery(run.method), optax.sgd(run.settings["learning_rate"]))
    state = tx.init(params)

    def main_loss(params, x, y):
        return optax.softmax_cross_entropy_with_integer_labels(nnx.merge(graph, params)(x), y).mean()

    def aux_loss(params):
        return 0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))

    @jax.jit
    def step(params, state, x, y):
        main, aux = jax.grad(main_loss)(params, x, y), jax.grad(aux_loss)(params)
        updates, state = tx.update(main, state, params, aux=aux)
        return optax.apply_updates(params, updates), state

    rng, steps = np.random.default_rng(run.seed), len(train) // run.settings["batch"]
    for epoch in range(run.settings["epochs"]):
        for rows in np.array_split(rng.permutation(train)[: steps * run.settings["batch"]], steps):
            params, state = step(params, state, x[rows], y[rows])
        run.progress = (epoch + 1) / run.settings["epochs"]
        aux = aux_loss(params)
        yield {
            "step": epoch + 1,
            "main_train": main_loss(params, x[train], y[train]),
            "main_test": main_loss(params, x[test], y[test]),
            "aux_train": aux,
            "aux_test": aux,
        }


if __name__ == "__main__":
    for recommendation in lab.recommend(lab.sweep(small_weights, folder="runs", seeds=[0, 1]), allow=0.05):
        print(recommendation.text)
