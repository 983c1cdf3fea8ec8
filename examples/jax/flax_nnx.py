"""Flax NNX: recognise digits (main), with small weights (aux).

    python examples/jax/flax_nnx.py      (needs: pip install flax)

``nnx.Optimizer`` passes keyword arguments on to optax, so ``aux`` goes into its ``update``.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from sklearn.datasets import load_digits

import gradsurgery as gs
import gradsurgery.jax as gsj

digits = load_digits()
x, y = digits.data.astype(np.float32) / 16, digits.target
rng = np.random.default_rng(0)
train, test = np.split(rng.permutation(len(y)), [1297])


def main_loss(model, x, y):
    """The cross-entropy of a batch."""
    return optax.softmax_cross_entropy_with_integer_labels(model(x), y).mean()


def aux_loss(model):
    """Half the squared norm of the weights."""
    return 0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(nnx.state(model, nnx.Param)))


def accuracy(model):
    """The accuracy on the test images."""
    return jnp.mean(model(x[test]).argmax(1) == y[test])


rngs = nnx.Rngs(0)
model = nnx.Sequential(nnx.Linear(64, 64, rngs=rngs), nnx.relu, nnx.Linear(64, 10, rngs=rngs))
tx = optax.chain(gsj.surgery(gs.bloop(lam=0.02, rho=0.02)), optax.sgd(0.2))
optimizer = nnx.Optimizer(model, tx, wrt=nnx.Param)


@nnx.jit
def step(model, optimizer, x, y):
    """One step of training, in place."""
    main, aux = nnx.grad(main_loss)(model, x, y), nnx.grad(aux_loss)(model)
    optimizer.update(model, main, aux=aux)


for _ in range(15):
    for rows in rng.permutation(train)[:1280].reshape(20, 64):
        step(model, optimizer, x[rows], y[rows])

main, aux = main_loss(model, x[train], y[train]), aux_loss(model)
print(f"test accuracy {accuracy(model):.3f}, main {main:.3f}, aux {aux:.1f}")
