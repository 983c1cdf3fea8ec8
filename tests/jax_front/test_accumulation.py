"""Micro-batches: both gradients are averaged, and the result is that of one large batch."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gradsurgery as gs
import gradsurgery.jax as gsj
from tests.jax_front.trees import flat

INPUTS = jnp.asarray(np.random.default_rng(0).normal(size=(24, 5)), jnp.float32)
TARGETS = {name: INPUTS @ jnp.arange(5.0) + shift for name, shift in {"main": 0.0, "aux": 3.0, "aux2": -1.0}.items()}
PARAMS = {"w": jnp.zeros(5), "b": jnp.zeros(())}


def loss(params, rows, name):
    return jnp.mean((INPUTS[rows] @ params["w"] + params["b"] - TARGETS[name][rows]) ** 2)


def train(tx, batches, names):
    @jax.jit
    def step(params, state, rows):
        main, *aux = (jax.grad(loss)(params, rows, name) for name in names)
        updates, state = tx.update(main, state, params, aux=tuple(aux))
        return optax.apply_updates(params, updates), state

    params, state = PARAMS, tx.init(PARAMS)
    for rows in batches:
        params, state = step(params, state, jnp.asarray(rows))
    return params, state


@pytest.mark.slow
@pytest.mark.parametrize("method", [gs.bloop(lam=0.5, rho=0.2), gs.bloop(lam=(0.5, 0.1), rho=0.2), gs.mixed(lam=0.3)])
@pytest.mark.parametrize("optimiser", [optax.sgd(0.05), optax.adam(0.05)], ids=["sgd", "adam"])
def test_a_linear_model_trains_as_on_the_large_batch(method, optimiser):
    names = ("main", "aux", "aux2")[: 1 + (method.aux_count or 1)]
    large = [np.random.default_rng(seed).permutation(24)[:12] for seed in range(6)]
    small = [rows for batch in large for rows in batch.reshape(4, 3)]
    tx = optax.chain(gsj.surgery(method), optimiser)
    expected, expected_state = train(tx, large, names)
    params, state = train(gsj.accumulate(tx, every=4, aux_count=len(names) - 1), small, names)
    assert_allclose(flat(params), flat(expected), rtol=1e-4)
    assert_allclose(flat(state.inner), flat(expected_state), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_nothing_is_updated_between_steps():
    tx = gsj.accumulate(optax.chain(gsj.surgery(gs.bloop(lam=0.5)), optax.adam(0.1)), every=3)
    state = start = tx.init(PARAMS)
    for _ in range(2):
        updates, state = tx.update(PARAMS | {"b": jnp.ones(())}, state, PARAMS, aux=PARAMS)
        assert not flat(updates).any()
        assert_array_equal(flat(state.inner), flat(start.inner))
    updates, state = tx.update(PARAMS | {"b": jnp.ones(())}, state, PARAMS, aux=PARAMS)
    assert flat(updates).any()
    assert not flat(state.means).any()


@pytest.mark.slow
def test_a_micro_batch_with_nan_costs_only_its_own_step():
    inner = optax.chain(gsj.surgery(gs.bloop(lam=0.5)), optax.apply_if_finite(optax.sgd(0.1), 5))
    tx = gsj.accumulate(inner, every=2)
    state, good, bad = tx.init(jnp.zeros(2)), jnp.ones(2), jnp.array([jnp.nan, 1.0])
    updated = []
    for main, aux in [(good, bad), (good, good), (good, good), (good, good)]:
        updates, state = tx.update(main, state, aux=aux)
        updated.append(bool(jnp.any(updates != 0)))
    assert updated == [False, False, False, True]
    assert_allclose(updates, -0.15, rtol=1e-6)


def test_the_state_can_be_donated():
    tx = gsj.accumulate(gsj.surgery(gs.mixed(lam=0.5)), every=2)
    update = jax.jit(lambda state, main: tx.update(main, state, aux=main), donate_argnums=0)
    direction, _ = update(update(tx.init(jnp.zeros(2)), jnp.ones(2))[1], jnp.ones(2))
    assert_allclose(direction, 1.5)


def test_bfloat16_gradients_are_averaged_in_float32():
    tx = gsj.accumulate(gsj.surgery(gs.mixed(lam=0.0)), every=300)
    state = tx.init(jnp.zeros(1, jnp.bfloat16))
    update = jax.jit(tx.update)
    for value in np.linspace(0, 1, 300):
        direction, state = update(jnp.full(1, value, jnp.bfloat16), state, aux=jnp.zeros(1, jnp.bfloat16))
    assert_allclose(direction, 0.5, rtol=1e-3)


def test_bad_arguments_get_one_sentence():
    with pytest.raises(ValueError, match="an integer of at least 1, the number of micro-batches; got 0"):
        gsj.accumulate(optax.sgd(0.1), every=0)
    tx = gsj.accumulate(gsj.surgery(gs.mixed(lam=0.1)), every=np.int64(2))  # a NumPy integer is fine
    with pytest.raises(ValueError, match="made for aux_count=1, but the number of trees in aux is 2"):
        tx.update(PARAMS, tx.init(PARAMS), aux=(PARAMS, PARAMS))
    with pytest.raises(TypeError, match="aux is missing"):
        tx.update(PARAMS, tx.init(PARAMS))


@pytest.mark.slow
@pytest.mark.parametrize("scanned", [False, True], ids=["steps", "scan"])
@pytest.mark.parametrize("optimiser", [optax.adam(0.01), optax.sgd(0.01, momentum=0.9)], ids=["adam", "momentum"])
@pytest.mark.parametrize("gradient_type", [jnp.bfloat16, jnp.float32], ids=["bf16", "f32"])
def test_bfloat16_parameters_train_with_accumulation(optimiser, gradient_type, scanned):
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), PARAMS)
    tx = gsj.accumulate(optax.chain(gsj.surgery(gs.bloop(lam=0.1)), optimiser), every=2)

    def step(carry, _):
        params, state = carry
        gradients = jax.tree.map(lambda leaf: jnp.ones_like(leaf, gradient_type), params)
        updates, state = tx.update(gradients, state, params, aux=gradients)
        return (optax.apply_updates(params, updates), state), None

    carry = start = params, tx.init(params)
    if scanned:
        carry, _ = jax.lax.scan(step, carry, length=4)
    else:
        for _ in range(4):
            carry, _ = jax.jit(step)(carry, None)
    assert (flat(carry[0]) < -0.015).all()  # two steps of 0.01 or more
    assert jax.tree.map(lambda leaf: leaf.dtype, carry) == jax.tree.map(lambda leaf: leaf.dtype, start)


def test_no_micro_batch_is_lost_when_every_becomes_smaller():
    many, few = (gsj.accumulate(gsj.surgery(gs.mixed(lam=1.0)), every=every) for every in (4, 2))
    state, zero = many.init(jnp.zeros(())), jnp.zeros(())
    for main in (1.0, 2.0, 3.0):
        _, state = many.update(jnp.array(main), state, aux=zero)
    updates, state = few.update(jnp.array(6.0), state, aux=zero)
    assert (float(updates), int(state.micro_step)) == (3.0, 0)


SHAPES = {"matrix": (8, 4), "rows": (3, 8), "bias": (5,)}
SPECS = {"matrix": jax.P("x", "y"), "rows": jax.P(None, "y"), "bias": jax.P()}


def draw_pairs(count):
    rng = np.random.default_rng(0)
    return [
        tuple({name: jnp.asarray(rng.normal(size=shape), jnp.float32) for name, shape in SHAPES.items()} for _ in "ab")
        for _ in range(count)
    ]


def accumulated(pairs, update, state):
    """The updates of each call, as one vector."""
    results = []
    for main, aux in pairs:
        updates, state = update(main, state, aux)
        results.append(flat(updates))
    return np.concatenate(results)


def optimiser(**options):
    surgery = gsj.surgery(gs.bloop(lam=0.5, rho=0.2), **options)
    return gsj.accumulate(optax.chain(surgery, optax.adam(0.1)), every=2)


@pytest.fixture
def unsharded():
    tx = optimiser()
    pairs = draw_pairs(4)
    return accumulated(pairs, jax.jit(lambda main, state, aux: tx.update(main, state, aux=aux)), tx.init(pairs[0][0]))


@pytest.mark.slow
def test_parameters_sharded_over_explicit_axes_accumulate_as_on_one_device(unsharded):
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        tx = optimiser()
        pairs = [tuple(jax.device_put(tree, SPECS) for tree in pair) for pair in draw_pairs(4)]
        update = jax.jit(lambda main, state, aux: tx.update(main, state, aux=aux))
        assert_allclose(accumulated(pairs, update, tx.init(pairs[0][0])), unsharded, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_shards_inside_shard_map_accumulate_as_on_one_device(unsharded):
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    tx = optimiser(axis_name=("x", "y"))
    pairs = draw_pairs(4)
    state = tx.init(pairs[0][0])
    is_params = lambda node: isinstance(node, dict) and node.keys() == SPECS.keys()  # noqa: E731
    state_specs = jax.tree.map(lambda node: SPECS if is_params(node) else jax.P(), state, is_leaf=is_params)
    update = jax.shard_map(
        lambda main, state, aux: tx.update(main, state, aux=aux),
        mesh=mesh,
        in_specs=(SPECS, state_specs, SPECS),
        out_specs=(SPECS, state_specs),
        check_vma=True,
    )
    assert_allclose(accumulated(pairs, jax.jit(update), state), unsharded, rtol=1e-4, atol=1e-6)
