"""The second pass on a CPU, where it undoes the move of an average, and where it goes ahead of one that has faded."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gradsurgery as gs
import gradsurgery.jax as gsj
from gradsurgery.jax.cpu_in_place import combine_and_update
from tests.methods.catalogue import everything


def history(steps=6, length=12, faded=()):
    """Main's and aux's gradients; those of some steps a million times as long as before."""
    gradients = np.random.default_rng(0).normal(size=(steps, 2, length)) + 0.3
    for step in faded:
        gradients[step:] *= 1e6
    return gradients.astype(np.float32)


def run(tx, gradients):
    """Directions and averages, step by step, jitted."""
    update, state, found = jax.jit(tx.update), tx.init(jnp.zeros(gradients.shape[-1])), []
    for main, aux in gradients:
        direction, state = update(jnp.asarray(main), state, aux=jnp.asarray(aux))
        found.append((np.asarray(direction), *map(np.asarray, state.averages)))
    return found


@pytest.fixture(autouse=True)
def nothing_compiled():
    """So that what a test puts in the place of something of JAX is seen, by this test alone."""
    jax.clear_caches()
    yield
    jax.clear_caches()


def on_an_accelerator(monkeypatch):
    jax.clear_caches()
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *given, cpu, default: default(*given))


def assert_as_reference(method, gradients):
    reference = gs.Reference(method)
    for now, (direction, *averages) in zip(gradients, run(gsj.surgery(method), gradients), strict=True):
        expected = reference(*now.astype(np.float64))
        assert_allclose(direction, expected, atol=1e-5 * np.linalg.norm(expected))
        for average, wanted in zip(averages, reference.state.corrected, strict=True):
            assert_allclose(average, wanted, atol=1e-5 * np.linalg.norm(wanted))


@dataclass(frozen=True)
class follower(gs.Method):
    """Follows the average of main, and neither gradient."""

    rho: float = 0.1

    @property
    def averaged(self):
        return 1

    def direction(self, step):
        return 2.0 * step.averages[0]


@pytest.mark.parametrize("faded", [(), (3,)], ids=["usual", "faded"])
@pytest.mark.parametrize(
    "method", [everything(), follower(), gs.bloop(lam=0.5, rho=1.0), gs.bloop(lam=100.0, rho=0.3)], ids=repr
)
def test_whatever_a_direction_weighs(method, faded):
    assert_as_reference(method, history(faded=faded))


def test_an_aux_of_half_precision_costs_main_no_digits():
    gradients = history(faded=[3])
    gradients[:, 1] = gradients[:, 1].astype(jnp.bfloat16)
    tx, reference = gsj.surgery(gs.bloop(lam=0.5, rho=0.1)), gs.Reference(gs.bloop(lam=0.5, rho=0.1))
    state = tx.init(jnp.zeros(12))
    for main, aux in gradients:
        direction, state = tx.update(jnp.asarray(main), state, aux=jnp.asarray(aux, jnp.bfloat16))
        expected = reference(main.astype(np.float64), aux.astype(np.float64))
        assert_allclose(direction, expected, atol=1e-5 * np.linalg.norm(expected))


def test_what_runs_on_an_accelerator_gives_the_same(monkeypatch):
    """There averages are not written in place. The third step is unsound, in the fifth the average has faded."""
    gradients, tx = history(faded=[4]), gsj.surgery(gs.bloop(lam=0.5, rho=0.1))
    gradients[2, 0, 0] = np.nan
    here = run(tx, gradients)
    on_an_accelerator(monkeypatch)
    for one, other in zip(here, run(gsj.surgery(gs.bloop(lam=0.5, rho=0.1)), gradients), strict=True):
        for found, expected in zip(one, other, strict=True):
            assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
    assert np.isnan(here[2][0]).all()
    assert_array_equal(here[2][1], here[1][1])


@pytest.mark.parametrize("mode", [jax.jacrev, jax.jacfwd], ids=["reverse", "forward"])
@pytest.mark.parametrize(("lam", "rho"), [(0.5, 0.1), (0.0, 0.1), (1e-4, 0.1), (0.5, 1.0)])
@pytest.mark.parametrize("scale", [1.0, 1e6], ids=["usual", "far longer"])
def test_training_can_be_differentiated(mode, lam, rho, scale, monkeypatch):
    """As on an accelerator, where nothing is undone: what rounding has taken from an average counts here."""
    gradients = jnp.asarray(history()).at[-1, 0].multiply(scale)

    def last(lam, rho, gradients):
        tx = gsj.surgery(gs.bloop(lam=lam, rho=rho))

        def step(state, now):
            direction, state = tx.update(now[0], state, aux=now[1])
            return state, direction

        return jax.lax.scan(step, tx.init(gradients[0, 0]), gradients)[1][-1]

    here = mode(last, argnums=(0, 1, 2))(lam, rho, gradients)
    on_an_accelerator(monkeypatch)
    for one, other in zip(here, mode(last, argnums=(0, 1, 2))(lam, rho, gradients), strict=True):
        assert_allclose(one, other, rtol=1e-4, atol=1e-5 * jnp.abs(other).max())


def test_the_loop_runs_where_an_average_has_faded_and_only_there(monkeypatch):
    seen, loop = [], jax.lax.while_loop

    def while_loop(condition, body, state):
        jax.debug.callback(lambda flag: seen.append(float(flag)), state[-1], ordered=True)
        return loop(condition, body, state)

    monkeypatch.setattr(jax.lax, "while_loop", while_loop)
    run(gsj.surgery(gs.bloop(lam=0.5, rho=0.1)), history(faded=[4]))
    jax.effects_barrier()
    assert seen == [1, 0, 0, 0, 1, 0]


def test_outside_of_jit_nothing_is_compiled_anew():
    tx = gsj.surgery(gs.bloop(lam=0.5, rho=0.1))
    state = tx.init(jnp.zeros(12))
    for main, aux in jnp.asarray(history()):
        _, state = tx.update(main, state, aux=aux)
    assert combine_and_update._cache_size() == 1


def test_numbers_of_another_type_undo_the_move_that_was_made():
    """With 64 bits switched on, a rho that Python gives has more digits than gradients of float32."""
    method, gradients = gs.bloop(lam=1.0, rho=0.9999), history(steps=3)
    gradients[2] *= 1e-4
    reference = gs.Reference(method)
    with jax.enable_x64(True):
        directions = [direction for direction, _ in run(gsj.surgery(method), gradients)]
    for now, direction in zip(gradients, directions, strict=True):
        expected = reference(*now.astype(np.float64))
        assert_allclose(direction, expected, atol=1e-6 * np.linalg.norm(expected))


def test_under_shard_map_gradients_may_differ_where_the_state_does_not():
    devices = jax.sharding.Mesh(jax.devices(), "x")
    tx = gsj.surgery(gs.bloop(lam=0.5, rho=0.1))
    whole, parts = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("x")

    @jax.jit
    @partial(jax.shard_map, mesh=devices, in_specs=(whole, parts, parts), out_specs=parts)
    def own(state, main, aux):
        return tx.update(main, state, aux=aux)[0]

    main, aux = jax.random.normal(jax.random.key(0), (2, 4 * len(jax.devices())))
    assert_allclose(own(tx.init(jnp.zeros(4)), main, aux), main + 0.5 * aux, rtol=1e-6)
