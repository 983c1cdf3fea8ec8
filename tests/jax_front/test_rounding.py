"""Averages in bfloat16: rounded as ``gradsurgery.rounding`` specifies, wherever the step runs."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from numpy.testing import assert_allclose, assert_array_equal

import gradsurgery as gs
import gradsurgery.jax as gsj
from gradsurgery import rounding
from gradsurgery.jax.rounding import round_to_bfloat16
from gradsurgery.rounding import stream_key
from tests.jax_front.trees import flat

METHOD = gs.bloop(lam=(0.5, 0.1), rho=0.1)
SHAPES = {"matrix": (8, 4), "rows": (3, 8), "scalar": ()}
SPECS = {"matrix": jax.P("x", "y"), "rows": jax.P(None, "y"), "scalar": jax.P()}


def make(method=METHOD, **options):
    return gsj.surgery(method, average_dtype=jnp.bfloat16, **options)


def draw(steps=4, shapes=SHAPES):
    """Main and two auxiliary gradients for each step."""
    rng = np.random.default_rng(0)
    return [
        [
            {name: jnp.asarray(rng.normal(size=shape) + 0.3, jnp.float32) for name, shape in shapes.items()}
            for _ in "abc"
        ]
        for _ in range(steps)
    ]


def run(tx, history, state=None):
    """The last direction and the averages, as one vector, and the state."""
    update, state = jax.jit(tx.update), tx.init(history[0][0]) if state is None else state
    for main, *aux in history:
        direction, state = update(main, state, aux=tuple(aux))
    return flat((direction, state.averages)), state


def bits(values):
    return np.asarray(values).view(np.uint16)


def specified(values, key):
    return (rounding.round_to_bfloat16(values, key).view(np.uint32) >> 16).astype(np.uint16)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("shape", [(), (1,), (1000,), (3, 0, 2), (7, 5, 11)], ids=str)
def test_rounding_is_the_specified_one(shape, compiled):
    function, rng = jax.jit(round_to_bfloat16) if compiled else round_to_bfloat16, np.random.default_rng(0)
    values = rng.integers(2**32, size=shape, dtype=np.uint32).view(np.float32)  # all exponents, subnormals and NaN
    for step in range(5):
        rounded, expected = bits(function(values, stream_key(step, 1, 3))), specified(values, stream_key(step, 1, 3))
        assert_array_equal(np.isnan(values) | (rounded == expected), True)
        assert_array_equal((rounded & 0x7FFF) > 0x7F80, np.isnan(values))


def test_nan_and_infinities_survive():
    special = np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800000, 0xFF800000], np.uint32).view(np.float32)
    for step in range(20):
        assert_array_equal(round_to_bfloat16(special, stream_key(step)).astype(jnp.float32), special)


def test_the_first_average_is_the_rounded_gradient_of_its_step_level_and_leaf():
    main, aux, aux2 = draw()[0]
    _, state = make().update(main, make().init(main), aux=(aux, aux2))
    for level, gradient in enumerate((main, aux)):
        for leaf, name in enumerate(sorted(SHAPES)):
            average = state.averages[level][name]
            assert average.dtype == jnp.bfloat16
            assert_array_equal(bits(average), specified(np.asarray(gradient[name]), stream_key(0, level, leaf)))


def test_a_small_rho_is_not_lost():
    """Rounding to nearest would keep the first average: a thousandth of the change is below half a unit."""
    tx, zero = make(gs.bloop(lam=1.0, rho=1e-3)), jnp.zeros(4096)
    _, state = tx.update(zero + 1, tx.init(zero), aux=zero)
    state = state._replace(mass=jnp.ones(()))  # as after many steps
    state, _ = jax.lax.scan(lambda state, _: (tx.update(zero + 2, state, aux=zero)[1], None), state, length=500)
    assert_allclose(np.asarray(state.averages[0], np.float64).mean(), 2 - 0.999**500, rtol=2e-3)


def test_directions_and_averages_follow_those_in_float32():
    history = [
        [{"w": jnp.asarray(row)} for row in step] for step in np.random.default_rng(0).normal(size=(30, 3, 500)) + 0.3
    ]
    rounded, _ = run(make(), history)
    exact, _ = run(gsj.surgery(METHOD), history)
    assert np.linalg.norm(rounded - exact) < 0.01 * np.linalg.norm(exact)


def test_an_unsound_step_keeps_the_averages_bit_for_bit():
    history = draw()
    _, before = run(make(), history)
    broken = [history[0][0] | {"scalar": jnp.asarray(jnp.nan)}, *history[0][1:]]
    _, after = run(make(), [broken], before)
    assert_array_equal(flat(after.averages), flat(before.averages))
    assert int(after.steps) == int(before.steps) + 1


@pytest.mark.slow
def test_a_resumed_run_is_identical_bit_for_bit(tmp_path):
    history = draw()
    straight, _ = run(make(), history)
    _, state = run(make(), history[:2])
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "state", state)
    with ocp.StandardCheckpointer() as checkpointer:
        restored = checkpointer.restore(tmp_path / "state", jax.eval_shape(lambda: make().init(history[0][0])))
    resumed, _ = run(make(), history[2:], restored)
    assert_array_equal(resumed, straight)


def test_scan_and_vmap_round_as_single_steps_do():
    history, tx = draw(), make()
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *history)

    def trained(scale):
        def step(state, gradients):
            main, *aux = jax.tree.map(lambda leaf: scale * leaf, gradients)
            return tx.update(main, state, aux=tuple(aux))[1], None

        return jax.lax.scan(step, tx.init(history[0][0]), stacked)[0].averages

    _, state = run(tx, history)
    assert_array_equal(flat(jax.jit(trained)(1.0)), flat(state.averages))
    lanes = jax.jit(jax.vmap(trained))(jnp.array([1.0, 2.0]))
    assert_array_equal(flat(jax.tree.map(lambda leaf: leaf[0], lanes)), flat(state.averages))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit], ids=str)
def test_sharded_parameters_are_rounded_as_on_one_device(kind):
    history = draw()
    expected, _ = run(make(), history)
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2)
    with jax.set_mesh(mesh):
        shardings = {name: NamedSharding(mesh, spec) for name, spec in SPECS.items()}
        sharded = [[jax.device_put(tree, shardings) for tree in step] for step in history]
        result, state = run(make(), sharded)
    assert state.averages[0]["matrix"].sharding.is_equivalent_to(shardings["matrix"], 2)
    # the order of summation may change the last bit of a weight, and so which way a few elements are rounded
    assert np.mean(result != expected) < 0.2
    assert_allclose(result, expected, rtol=0.02, atol=0.02)


@pytest.mark.slow
def test_inside_shard_map_each_shard_has_noise_of_its_own():
    """Every element has the same value, so shards with the same noise would be rounded alike."""
    mesh = Mesh(np.array(jax.devices()), "x")
    specs = {"sharded": jax.P("x"), "replicated": jax.P()}
    tx = make(gs.bloop(lam=0.5), axis_name="x")
    main = {"sharded": jnp.full(8 * 64, 1.005), "replicated": jnp.full(64, 1.005)}
    state_specs = jax.tree.map(lambda _: jax.P(), tx.init(main))._replace(averages=(specs,))
    update = jax.shard_map(
        lambda main, state: tx.update(main, state, aux=main),
        mesh=mesh,
        in_specs=(specs, state_specs),
        out_specs=(specs, state_specs),
    )
    _, state = jax.jit(update)(main, tx.init(main))
    shards = np.asarray(state.averages[0]["sharded"]).reshape(8, 64)
    assert len({shard.tobytes() for shard in shards}) == 8
    expected = [specified(np.full(64, 1.005, np.float32), stream_key(0, 0, 1, shard)) for shard in range(8)]
    assert_array_equal(bits(shards), expected)
    replicated = specified(np.full(64, 1.005, np.float32), stream_key(0, 0, 0))
    assert_array_equal(bits(state.averages[0]["replicated"]), replicated)


def test_the_derivative_of_rounding_is_that_of_the_identity():
    def length(main):
        _, state = make(gs.bloop(lam=0.5)).update(main, make(gs.bloop(lam=0.5)).init(main), aux=main)
        return jnp.sum(state.averages[0].astype(jnp.float32))

    assert_array_equal(jax.grad(length)(jnp.linspace(0.1, 1, 7)), 1.0)


def test_it_trains_in_a_chain_with_accumulation():
    tx = gsj.accumulate(optax.chain(make(gs.bloop(lam=0.5)), optax.adam(0.1)), every=2)
    params = jnp.ones(3)
    state = tx.init(params)
    for _ in range(4):
        updates, state = jax.jit(tx.update)(params, state, params, aux=params)
        params = optax.apply_updates(params, updates)
    assert state.inner[0].averages[0].dtype == jnp.bfloat16
    assert_allclose(params, 0.8, atol=0.01)


@pytest.mark.parametrize("spelling", ["bfloat16", jnp.dtype("bfloat16"), jnp.bfloat16], ids=repr)
def test_the_type_may_be_spelled_as_in_optax(spelling):
    (average,) = gsj.surgery(gs.bloop(lam=0.1), average_dtype=spelling).init(jnp.ones(3)).averages
    assert average.dtype == jnp.bfloat16


def test_bad_types_get_one_sentence():
    with pytest.raises(ValueError, match=r"must be bfloat16, or None for float32 or wider; got .*float16"):
        gsj.surgery(METHOD, average_dtype=jnp.float16)
    with pytest.raises(
        TypeError, match=r"None for complex parameters; got bfloat16, and params\['w'\] is of type complex64"
    ):
        make().init({"w": jnp.ones(2, jnp.complex64)})
    main = jnp.ones(3)
    with pytest.raises(
        TypeError, match="must be bfloat16; got float32: it was cast, or made with another average_dtype"
    ):
        make().update(main, gsj.surgery(METHOD).init(main), aux=(main, main))
    with pytest.raises(TypeError, match="must be float32 or wider; got bfloat16"):
        gsj.surgery(METHOD).update(main, make().init(main), aux=(main, main))
