"""Physics-informed network: fit noisy measurements (main), and obey a simplified equation between them (aux).

    python examples/jax/physics.py

A pendulum is measured 24 times. The equation is that of small swings, which these are not: the measurements outrank
it, so they are main. All λ and seeds are trained at once, by ``vmap``.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

import gradsurgery as gs
import gradsurgery.jax as gsj

TIMES = np.linspace(0, 6, 601)


def swing() -> np.ndarray:
    """The angle of a damped pendulum at each of the times, in small steps of Euler's method."""
    angle, speed, angles = 1.0, 0.0, [1.0]
    for _ in range(10 * (len(TIMES) - 1)):
        speed -= 0.001 * (4 * np.sin(angle) + 0.2 * speed)
        angle += 0.001 * speed
        angles.append(angle)
    return np.array(angles[::10])


rng = np.random.default_rng(0)
truth = swing()
measured = np.sort(rng.choice(601, 24, replace=False))
held_out = rng.choice(601, 200, replace=False)
noisy = truth + 0.1 * rng.normal(size=601)


def init(key):
    """A network of three layers, from a time to an angle."""
    keys, sizes = jax.random.split(key, 3), (1, 32, 32, 1)
    return [
        (jax.random.normal(key, (inputs, outputs)) / inputs**0.5, jnp.zeros(outputs))
        for key, inputs, outputs in zip(keys, sizes[:-1], sizes[1:], strict=True)
    ]


def network(params, time):
    """The angle at a time."""
    hidden = jnp.array([time - 3])
    for weight, bias in params[:-1]:
        hidden = jnp.tanh(hidden @ weight + bias)
    weight, bias = params[-1]
    return (hidden @ weight + bias)[0]


def error(params, angles, rows):
    """The mean squared distance from the angles at some of the times."""
    return jnp.mean((jax.vmap(partial(network, params))(TIMES[rows]) - angles[rows]) ** 2)


def rate(function):
    """The derivative by time."""
    return lambda time: jax.jvp(function, (time,), (1.0,))[1]


def residual(params):
    """How far the network is from the equation of small swings, angle'' = -4 angle - 0.2 angle'."""
    angle = partial(network, params)
    speed = rate(angle)
    gap = jax.vmap(lambda time: rate(speed)(time) + 4 * angle(time) + 0.2 * speed(time))(TIMES[::20])
    return jnp.mean(gap**2)


@partial(jax.jit, static_argnums=0)
@partial(jax.vmap, in_axes=(None, 0, None))
@partial(jax.vmap, in_axes=(None, None, 0))
def fit(make, lam, seed):
    """The loss on held-out measurements, the residual, and the distance from the true angles."""
    tx = optax.chain(gsj.surgery(make(lam)), optax.adam(optax.cosine_decay_schedule(5e-3, 1000)))
    params = init(jax.random.key(seed))

    def step(carry, _):
        params, state = carry
        main, aux = jax.grad(error)(params, noisy, measured), jax.grad(residual)(params)
        updates, state = tx.update(main, state, params, aux=aux)
        return (optax.apply_updates(params, updates), state), None

    (params, _), _ = jax.lax.scan(step, (params, tx.init(params)), length=1000)
    distance = jnp.sqrt(error(params, truth, slice(None)))
    return jnp.array([error(params, noisy, held_out), residual(params), distance])


lams = [0.0, 0.001, 0.01, 0.1, 1.0]
methods = {"sum": lambda lam: gs.mixed(lam=lam), "Bloop": lambda lam: gs.bloop(lam=lam, rho=None)}
runs = {name: fit(make, jnp.array(lams), jnp.arange(8)).mean(1) for name, make in methods.items()}
fronts = {name: dict(zip(lams, np.array(each), strict=True)) for name, each in runs.items()}
fronts = {"main alone": {0.0: fronts["sum"][0.0]}, **fronts}
for name, front in fronts.items():  # the lowest main: here the equation is only a means to it
    best = min(front, key=lambda lam: front[lam][0])
    main, aux, distance = front[best]
    print(f"{name}, λ = {best:g}: main {main:.4f}, aux {aux:.3f}, distance from the truth {distance:.3f}")
