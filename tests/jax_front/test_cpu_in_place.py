"""The second pass for CPUs: it recovers old averages from new ones, or forms the direction first."""

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


def history(steps=6, length=12, jumps=()):
    """Gradients of main and aux, which grow a millionfold at each step in ``jumps``: the average fades beside them."""
    gradients = np.random.default_rng(0).normal(size=(steps, 2, length)) + 0.3
    for step in jumps:
        gradients[step:] *= 1e6
    return gradients.astype(np.float32)


def run(tx, gradients):
    """The direction and the averages of each step, jitted."""
    update, state, results = jax.jit(tx.update), tx.init(jnp.zeros(gradients.shape[-1])), []
    for main, aux in gradients:
        direction, state = update(jnp.asarray(main), state, aux=jnp.asarray(aux))
        results.append((np.asarray(direction), *map(np.asarray, state.averages)))
    return results


@pytest.fixture(autouse=True)
def clear_compiled_functions():
    """So that a test's patches of JAX take effect, in this test only."""
    jax.clear_caches()
    yield
    jax.clear_caches()


def pretend_accelerator(monkeypatch):
    jax.clear_caches()
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *args, cpu, default: default(*args))


def assert_as_reference(method, gradients):
    reference = gs.Reference(method)
    for pair, (direction, *averages) in zip(gradients, run(gsj.surgery(method), gradients), strict=True):
        expected = reference(*pair.astype(np.float64))
        assert_allclose(direction, expected, atol=1e-5 * np.linalg.norm(expected))
        for average, expected_average in zip(averages, reference.state.corrected, strict=True):
            assert_allclose(average, expected_average, atol=1e-5 * np.linalg.norm(expected_average))


@dataclass(frozen=True)
class follower(gs.Method):
    """Uses only the average of main, and neither gradient."""

    rho: float = 0.1

    @property
    def averaged(self):
        return 1

    def direction(self, step):
        return 2.0 * step.averages[0]


@pytest.mark.slow
@pytest.mark.parametrize("jumps", [(), (3,)], ids=["usual", "faded"])
@pytest.mark.parametrize(
    "method", [everything(), follower(), gs.bloop(lam=0.5, rho=1.0), gs.bloop(lam=100.0, rho=0.3)], ids=repr
)
def test_any_weights_give_the_reference_result(method, jumps):
    assert_as_reference(method, history(jumps=jumps))


def test_a_bfloat16_aux_costs_main_no_digits():
    gradients = history(jumps=[3])
    gradients[:, 1] = gradients[:, 1].astype(jnp.bfloat16)
    tx, reference = gsj.surgery(gs.bloop(lam=0.5, rho=0.1)), gs.Reference(gs.bloop(lam=0.5, rho=0.1))
    state = tx.init(jnp.zeros(12))
    for main, aux in gradients:
        direction, state = tx.update(jnp.asarray(main), state, aux=jnp.asarray(aux, jnp.bfloat16))
        expected = reference(main.astype(np.float64), aux.astype(np.float64))
        assert_allclose(direction, expected, atol=1e-5 * np.linalg.norm(expected))


def test_the_pass_for_accelerators_gives_the_same_results(monkeypatch):
    """The third step is unsound; in the fifth the average is much shorter than its gradient."""
    gradients, tx = history(jumps=[4]), gsj.surgery(gs.bloop(lam=0.5, rho=0.1))
    gradients[2, 0, 0] = np.nan
    on_cpu = run(tx, gradients)
    pretend_accelerator(monkeypatch)
    on_accelerator = run(gsj.surgery(gs.bloop(lam=0.5, rho=0.1)), gradients)
    for results, expected_results in zip(on_cpu, on_accelerator, strict=True):
        for result, expected in zip(results, expected_results, strict=True):
            assert_allclose(result, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())
    assert np.isnan(on_cpu[2][0]).all()
    assert_array_equal(on_cpu[2][1], on_cpu[1][1])


@pytest.mark.slow
@pytest.mark.parametrize("mode", [jax.jacrev, jax.jacfwd], ids=["reverse", "forward"])
def test_training_can_be_differentiated(mode, monkeypatch):
    """As on an accelerator, where no average is recovered with fewer digits."""

    def last_direction(lam, rho, gradients):
        tx = gsj.surgery(gs.bloop(lam=lam, rho=rho))

        def step(state, pair):
            direction, state = tx.update(pair[0], state, aux=pair[1])
            return state, direction

        return jax.lax.scan(step, tx.init(gradients[0, 0]), gradients)[1][-1]

    def derivatives():
        compiled = jax.jit(mode(last_direction, argnums=(0, 1, 2)))  # once for all cases
        return [
            compiled(lam, rho, jnp.asarray(history()).at[-1, 0].multiply(scale))
            for lam, rho in [(0.5, 0.1), (0.0, 0.1), (1e-4, 0.1), (0.5, 1.0)]
            for scale in (1.0, 1e6)
        ]

    on_cpu = derivatives()
    pretend_accelerator(monkeypatch)
    for derivative, expected in zip(jax.tree.leaves(on_cpu), jax.tree.leaves(derivatives()), strict=True):
        assert_allclose(derivative, expected, rtol=1e-4, atol=1e-5 * jnp.abs(expected).max())


def test_the_loop_runs_in_the_first_step_and_where_an_average_has_faded(monkeypatch):
    flags, loop = [], jax.lax.while_loop

    def while_loop(condition, body, state):
        jax.debug.callback(lambda flag: flags.append(float(flag)), state[-1], ordered=True)
        return loop(condition, body, state)

    monkeypatch.setattr(jax.lax, "while_loop", while_loop)
    run(gsj.surgery(gs.bloop(lam=0.5, rho=0.1)), history(jumps=[4]))
    jax.effects_barrier()
    assert flags == [1, 0, 0, 0, 1, 0]


def test_outside_jit_nothing_is_recompiled():
    tx = gsj.surgery(gs.bloop(lam=0.5, rho=0.1))
    state = tx.init(jnp.zeros(12))
    for main, aux in jnp.asarray(history()):
        _, state = tx.update(main, state, aux=aux)
    assert combine_and_update._cache_size() == 1


def test_averages_are_recovered_with_the_rounded_weights_that_updated_them():
    """With 64 bits enabled, a Python rho has more digits than float32 gradients."""
    method, gradients = gs.bloop(lam=1.0, rho=0.9999), history(steps=3)
    gradients[2] *= 1e-4
    reference = gs.Reference(method)
    with jax.enable_x64(True):
        directions = [direction for direction, _ in run(gsj.surgery(method), gradients)]
    for pair, direction in zip(gradients, directions, strict=True):
        expected = reference(*pair.astype(np.float64))
        assert_allclose(direction, expected, atol=1e-6 * np.linalg.norm(expected))


def test_under_shard_map_gradients_may_differ_where_the_state_does_not():
    mesh = jax.sharding.Mesh(jax.devices(), "x")
    tx = gsj.surgery(gs.bloop(lam=0.5, rho=0.1))
    replicated, sharded = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("x")

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=(replicated, sharded, sharded), out_specs=sharded)
    def update(state, main, aux):
        return tx.update(main, state, aux=aux)[0]

    main, aux = jax.random.normal(jax.random.key(0), (2, 4 * len(jax.devices())))
    assert_allclose(update(tx.init(jnp.zeros(4)), main, aux), main + 0.5 * aux, rtol=1e-6)
