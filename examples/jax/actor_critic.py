"""Actor-critic: a policy that balances a pole (main), and a value function on the same trunk (aux).

    python examples/jax/actor_critic.py

The value loss is the larger one by far, and in a shared trunk it drowns the policy's gradient. The surgery is on the
trunk; each head is trained by its own loss. All λ and seeds are trained at once, by ``vmap``.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

import gradsurgery as gs
import gradsurgery.jax as gsj

POLES, STEPS, UPDATES = 16, 32, 150


def push(pole, age, action, fresh):
    """One step of 0.02 s of a pole on a cart; a fresh pole where it falls, or after 200 steps."""
    _, speed, angle, spin = pole
    force = (jnp.where(action == 1, 10.0, -10.0) + 0.05 * spin**2 * jnp.sin(angle)) / 1.1
    turn = (9.8 * jnp.sin(angle) - jnp.cos(angle) * force) / (0.5 * (4 / 3 - 0.1 * jnp.cos(angle) ** 2 / 1.1))
    pole = pole + 0.02 * jnp.array([speed, force - 0.05 * turn * jnp.cos(angle) / 1.1, spin, turn])
    over = (jnp.abs(pole[0]) > 2.4) | (jnp.abs(pole[2]) > 0.21) | (age == 199)
    return jnp.where(over, fresh, pole), jnp.where(over, 0, age + 1), over


def init(key):
    """A trunk of two layers and two heads, as weights and biases."""
    sizes = {"first": (4, 32, 1.0), "second": (32, 32, 1.0), "policy": (32, 2, 0.01), "value": (32, 1, 1.0)}
    layers = {
        name: (scale * jax.random.normal(key, (inputs, outputs)) / inputs**0.5, jnp.zeros(outputs))
        for key, (name, (inputs, outputs, scale)) in zip(jax.random.split(key, 4), sizes.items(), strict=True)
    }
    return {"heads": {name: layers.pop(name) for name in ("policy", "value")}, "trunk": layers}


def network(params, poles):
    """The logarithms of the probabilities of both actions, and the value."""
    hidden = poles
    for weight, bias in (params["trunk"]["first"], params["trunk"]["second"]):
        hidden = jnp.tanh(hidden @ weight + bias)
    logits, values = (hidden @ weight + bias for weight, bias in (params["heads"]["policy"], params["heads"]["value"]))
    return jax.nn.log_softmax(logits), values[..., 0]


def play(params, poles, ages, key):
    """The poles after 32 steps of the policy; what it saw, what it did, and where a pole was over."""

    def step(carry, key):
        poles, ages = carry
        action_key, fresh_key = jax.random.split(key)
        actions = jax.random.categorical(action_key, network(params, poles)[0])
        fresh = jax.random.uniform(fresh_key, (POLES, 4), minval=-0.05, maxval=0.05)
        *after, over = jax.vmap(push)(poles, ages, actions, fresh)
        return tuple(after), (poles, actions, over)

    return jax.lax.scan(step, (poles, ages), jax.random.split(key, STEPS))


def estimate(params, seen, over, last):
    """The advantage of each action, by generalised advantage estimation, and what the value should have been."""
    values = network(params, seen)[1]
    following = jnp.where(over, 0, jnp.append(values[1:], network(params, last)[1][None], axis=0))

    def back(advantage, step):
        value, following, over = step
        advantage = 1 + 0.99 * following - value + 0.99 * 0.95 * jnp.where(over, 0, advantage)
        return advantage, advantage

    _, advantages = jax.lax.scan(back, jnp.zeros(POLES), (values, following, over), reverse=True)
    return (advantages - advantages.mean()) / advantages.std(), advantages + values


def policy_loss(params, seen, actions, advantages):
    """Policy gradient, with a little entropy."""
    logs = network(params, seen)[0]
    taken = jnp.take_along_axis(logs, actions[..., None], axis=-1)[..., 0]
    return -jnp.mean(taken * advantages) + 0.01 * jnp.mean(jnp.sum(jnp.exp(logs) * logs, axis=-1))


def value_loss(params, seen, targets):
    """The mean squared error of the values."""
    return jnp.mean((network(params, seen)[1] - targets) ** 2)


@partial(jax.jit, static_argnums=0)
@partial(jax.vmap, in_axes=(None, 0, None))
@partial(jax.vmap, in_axes=(None, None, 0))
def train(make, lam, seed):
    """The mean number of steps that a pole stood, and the value loss, over the last third of training."""
    surgery, optimizer = gsj.surgery(make(lam)), optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-3))

    def update(carry, key):
        params, state, poles, ages = carry
        (poles, ages), (seen, actions, over) = play(params, poles, ages, key)
        advantages, targets = estimate(params, seen, over, poles)
        main = jax.grad(policy_loss)(params, seen, actions, advantages)
        loss, aux = jax.value_and_grad(value_loss)(params, seen, targets)
        trunk, surgery_state = surgery.update(main["trunk"], state[0], aux=aux["trunk"])
        direction = {"trunk": trunk, "heads": jax.tree.map(jnp.add, main["heads"], aux["heads"])}
        updates, optimizer_state = optimizer.update(direction, state[1])
        return (optax.apply_updates(params, updates), (surgery_state, optimizer_state), poles, ages), (over, loss)

    params_key, key = jax.random.split(jax.random.key(seed))
    params = init(params_key)
    state = surgery.init(params["trunk"]), optimizer.init(params)
    start = params, state, jnp.zeros((POLES, 4)), jnp.zeros(POLES, int)
    _, (over, loss) = jax.lax.scan(update, start, jax.random.split(key, UPDATES))
    return jnp.array([1 / over[-50:].mean(), loss[-50:].mean()])


lams = [0.0, 0.0005, 0.005, 0.5]
methods = {"sum": lambda lam: gs.mixed(lam=lam), "Bloop": lambda lam: gs.bloop(lam=lam, rho=0.1)}
runs = {name: train(make, jnp.array(lams), jnp.arange(8)).mean(1) for name, make in methods.items()}
fronts = {name: dict(zip(lams, np.array(each), strict=True)) for name, each in runs.items()}
print("main alone: steps {:.0f}, aux {:.0f}".format(*fronts["sum"][0.0]))
for lam in lams[1:]:  # the last one is the customary weight
    both = *fronts["sum"][lam], *fronts["Bloop"][lam]
    print("λ = {:g}: sum {:.0f} steps, aux {:.0f}; Bloop {:.0f} steps, aux {:.0f}".format(lam, *both))
