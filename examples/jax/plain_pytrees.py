"""JAX without a neural network library: recognise digits (main), with small weights (aux).

    python examples/jax/plain_pytrees.py

Parameters are a dictionary of arrays. Put ``gsj.surgery`` before the optimiser, compute the gradient of each loss, and
pass the second one as ``aux``.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import gradsurgery as gs
import gradsurgery.jax as gsj

digits = load_digits()
x, y = digits.data.astype(np.float32) / 16, digits.target
rng = np.random.default_rng(0)
train, test = np.split(rng.permutation(len(y)), [1297])


def network(params, x):
    """Two layers."""
    hidden = jax.nn.relu(x @ params["first"] + params["first_bias"])
    return hidden @ params["second"] + params["second_bias"]


def main_loss(params, x, y):
    """The cross-entropy of a batch."""
    return optax.softmax_cross_entropy_with_integer_labels(network(params, x), y).mean()


def aux_loss(params):
    """Half the squared norm of the weights."""
    return 0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def accuracy(params):
    """The accuracy on the test images."""
    return jnp.mean(network(params, x[test]).argmax(1) == y[test])


first_key, second_key = jax.random.split(jax.random.key(0))
params = {
    "first": jax.random.normal(first_key, (64, 64)) / 8,
    "first_bias": jnp.zeros(64),
    "second": jax.random.normal(second_key, (64, 10)) / 8,
    "second_bias": jnp.zeros(10),
}
tx = optax.chain(gsj.surgery(gs.bloop(lam=0.02, rho=0.02)), optax.sgd(0.2))
state = tx.init(params)


@jax.jit
def step(params, state, x, y):
    """One step of training."""
    main, aux = jax.grad(main_loss)(params, x, y), jax.grad(aux_loss)(params)
    updates, state = tx.update(main, state, params, aux=aux)
    return optax.apply_updates(params, updates), state


for _ in range(15):
    for rows in rng.permutation(train)[:1280].reshape(20, 64):
        params, state = step(params, state, x[rows], y[rows])

main, aux = main_loss(params, x[train], y[train]), aux_loss(params)
print(f"test accuracy {accuracy(params):.3f}, main {main:.3f}, aux {aux:.1f}")
