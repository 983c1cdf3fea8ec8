"""Haiku: recognise digits (main), with small weights (aux).

    python examples/jax/haiku_transform.py      (needs: pip install dm-haiku)

``hk.transform`` turns modules into pure functions of a dictionary of parameters, so the rest is as in
``plain_pytrees.py``.
"""

import haiku as hk
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

network = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([64, 10])(x)))


def main_loss(params, x, y):
    """The cross-entropy of a batch."""
    return optax.softmax_cross_entropy_with_integer_labels(network.apply(params, x), y).mean()


def aux_loss(params):
    """Half the squared norm of the weights."""
    return 0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))


def accuracy(params):
    """The accuracy on the test images."""
    return jnp.mean(network.apply(params, x[test]).argmax(1) == y[test])


params = network.init(jax.random.key(0), x[:1])
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
