"""Equinox: recognise digits (main), with small weights (aux).

    python examples/jax/equinox_module.py      (needs: pip install equinox)

An Equinox model holds functions beside its arrays. ``eqx.filter_grad`` leaves them out of both gradients, and
``eqx.filter`` out of ``tx.init``.
"""

import equinox as eqx
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


def main_loss(model, x, y):
    """The cross-entropy of a batch."""
    return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(model)(x), y).mean()


def aux_loss(model):
    """Half the squared norm of the weights."""
    return 0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))


def accuracy(model):
    """The accuracy on the test images."""
    return jnp.mean(jax.vmap(model)(x[test]).argmax(1) == y[test])


model = eqx.nn.MLP(64, 10, width_size=64, depth=1, key=jax.random.key(0))
tx = optax.chain(gsj.surgery(gs.bloop(lam=0.02, rho=0.02)), optax.sgd(0.2))
state = tx.init(eqx.filter(model, eqx.is_inexact_array))


@eqx.filter_jit
def step(model, state, x, y):
    """One step of training."""
    main, aux = eqx.filter_grad(main_loss)(model, x, y), eqx.filter_grad(aux_loss)(model)
    updates, state = tx.update(main, state, model, aux=aux)
    return eqx.apply_updates(model, updates), state


for _ in range(15):
    for rows in rng.permutation(train)[:1280].reshape(20, 64):
        model, state = step(model, state, x[rows], y[rows])

main, aux = main_loss(model, x[train], y[train]), aux_loss(model)
print(f"test accuracy {accuracy(model):.3f}, main {main:.3f}, aux {aux:.1f}")
