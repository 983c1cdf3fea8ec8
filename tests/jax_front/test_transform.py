"""``surgery`` as an optax transformation: together with the rest of optax, and with bad input."""

import os
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import gradsurgery as gs
import gradsurgery.jax as gsj
from tests.jax_front.trees import flat
from tests.methods.catalogue import ALL, every_method

OPTIMISERS = {
    "sgd": optax.sgd(0.1),
    "momentum": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "adam": optax.adam(0.1),
    "adamw": optax.adamw(0.1),
    "clipped": optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(0.1)),
}


def draw_gradients(seed, sizes=(4, 3)):
    keys = jax.random.split(jax.random.key(seed), len(sizes))
    return {f"w{k}": jax.random.normal(key, (size,)) for k, (key, size) in enumerate(zip(keys, sizes, strict=True))}


PARAMS = draw_gradients(99)


def train(tx, count, params=PARAMS, state=None, start=0):
    """Train for ``count`` jitted steps on gradients that depend on the parameters."""

    @jax.jit
    def step(params, state, seed):
        main = jax.tree.map(lambda p, z: p + z, params, draw_gradients(seed))
        aux = jax.tree.map(lambda p, z: jnp.sin(p) + z, params, draw_gradients(1000 + seed))
        updates, state = tx.update(main, state, params, aux=aux)
        return optax.apply_updates(params, updates), state

    state = tx.init(params) if state is None else state
    for seed in range(start, start + count):
        params, state = step(params, state, seed)
    return params, state


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", OPTIMISERS.values(), ids=OPTIMISERS)
def test_in_a_chain_the_optimiser_gets_the_direction(optimiser):
    params, state = PARAMS, optimiser.init(PARAMS)
    step = gs.Reference(gs.bloop(lam=0.5, rho=0.1))
    for seed in range(5):
        main = jax.tree.map(lambda p, z: p + z, params, draw_gradients(seed))
        aux = jax.tree.map(lambda p, z: jnp.sin(p) + z, params, draw_gradients(1000 + seed))
        direction = jnp.asarray(step(flat(main), flat(aux)), jnp.float32)
        direction = {"w0": direction[:4], "w1": direction[4:]}
        updates, state = optimiser.update(direction, state, params)
        params = optax.apply_updates(params, updates)
    trained, _ = train(optax.chain(gsj.surgery(gs.bloop(lam=0.5, rho=0.1)), optimiser), 5)
    assert_allclose(flat(trained), flat(params), rtol=1e-4, atol=1e-6)


def test_clipping_before_the_surgery_clips_main():
    tx = optax.chain(optax.clip_by_global_norm(1.0), gsj.surgery(gs.mixed(lam=1.0)))
    direction, _ = tx.update(jnp.array([3.0, 4.0]), tx.init(jnp.zeros(2)), aux=jnp.array([10.0, 0.0]))
    assert_allclose(direction, [10.6, 0.8], rtol=1e-6)


@pytest.mark.slow
def test_changing_a_traced_lam_or_rho_does_not_recompile():
    compiled = 0

    @jax.jit
    def run(lam, rho):
        nonlocal compiled
        compiled += 1
        tx = optax.chain(gsj.surgery(gs.bloop(lam=lam, rho=rho)), optax.sgd(0.1))
        state = tx.init(PARAMS)
        for seed in range(3):
            updates, state = tx.update(draw_gradients(seed), state, aux=draw_gradients(seed + 10))
        return updates

    for lam, rho in [(0.1, 0.1), (0.7, 0.5), (0.0, 1.0)]:
        tx = optax.chain(gsj.surgery(gs.bloop(lam=lam, rho=rho)), optax.sgd(0.1))
        state = tx.init(PARAMS)
        for seed in range(3):
            expected, state = tx.update(draw_gradients(seed), state, aux=draw_gradients(seed + 10))
        assert_allclose(flat(run(lam, rho)), flat(expected), rtol=1e-5, atol=1e-7)
    assert compiled == 1


def test_hyperparameters_can_be_injected_and_changed_in_the_state():
    @optax.inject_hyperparams
    def make(lam, rho):
        return optax.chain(gsj.surgery(gs.bloop(lam=lam, rho=rho)), optax.sgd(1.0))

    tx = make(lam=0.5, rho=0.1)
    main, aux = jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0])
    state = tx.init(main)
    update = jax.jit(tx.update)
    updates, state = update(main, state, main, aux=aux)
    assert_allclose(updates, [-1.0, -0.5])
    state.hyperparams["lam"] = jnp.asarray(0.25, jnp.float32)
    updates, state = update(main, state, main, aux=aux)
    assert_allclose(updates, [-1.0, -0.25])
    assert update._cache_size() == 1
    assert_allclose(gsj.diagnostics(state)["weight_aux"], 0.25)


# inject_hyperparams keeps numbers in the type of the parameters
@pytest.mark.parametrize("make", [
    lambda share: gs.bloop(lam=0.1, rho=share),
    lambda share: gs.gradvac(beta=share),
    lambda share: gs.pcd(tau=0.3, beta=share),
], ids=["bloop", "gradvac", "pcd"])  # fmt: skip
def test_a_share_in_bfloat16_averages_as_the_same_number_in_float32(make):
    main, share = jnp.ones(2), jnp.bfloat16(0.001)
    states = []
    for method in (make(share), make(float(share))):
        tx = gsj.surgery(method)
        _, state = tx.update(main, jax.tree.map(jnp.ones_like, tx.init(main)), aux=-main)  # jit may round less
        states.append(flat((state.averages, state.mass, state.memory)))
    assert_allclose(*states, rtol=1e-6)


def test_schedules_get_the_number_of_steps():
    tx = gsj.surgery(gs.mixed(lam=optax.linear_schedule(0.0, 1.0, 10)))
    state = tx.init(jnp.zeros(1))
    for count in range(12):
        direction, state = jax.jit(tx.update)(jnp.zeros(1), state, aux=jnp.ones(1))
        assert_allclose(direction, min(count / 10, 1.0), rtol=1e-6)


@pytest.mark.slow
def test_vmap_over_lam_trains_each_lane_as_if_alone():
    def train_with(lam):
        params, _ = train(optax.chain(gsj.surgery(gs.bloop(lam=lam, rho=0.1)), optax.adam(0.1)), 3)
        return params

    lams = jnp.array([0.0, 0.1, 1.0])
    lanes, alone = jax.vmap(train_with)(lams), jax.jit(train_with)
    for lane, lam in enumerate(lams):
        assert_allclose(flat(jax.tree.map(lambda leaf: leaf[lane], lanes)), flat(alone(lam)), rtol=1e-4, atol=1e-6)  # noqa: B023


def test_masked_parameters_take_no_part():
    surgery = gsj.surgery(gs.bloop(lam=0.5, rho=None))
    tx = optax.masked(surgery, {"a": True, "b": False}, mask_compatible_extra_args=True)
    main = {"a": jnp.array([2.0, 0.0]), "b": jnp.array([7.0])}
    aux = {"a": jnp.array([4.0, 6.0]), "b": jnp.array([8.0])}
    direction, _ = tx.update(main, tx.init(main), main, aux=aux)
    assert_allclose(flat(direction), [2.0, 3.0, 7.0])


# inner products, averages and memory: what a sharded step can get wrong
SHARDED = ["bloop", "bloop three levels", "pcgrad relative average", "gradvac", "metabalance three"]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "aux_count"), [ALL[label] for label in SHARDED], ids=SHARDED)
def test_parameters_sharded_over_8_devices_give_the_single_device_result(method, aux_count):
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    spec = {
        "matrix": jax.NamedSharding(mesh, jax.P("x", "y")),
        "rows": jax.NamedSharding(mesh, jax.P(None, ("y", "x"))),
        "bias": jax.NamedSharding(mesh, jax.P()),
    }
    rng = np.random.default_rng(0)
    trees = [
        {"matrix": rng.normal(size=(8, 4)), "rows": rng.normal(size=(3, 8)), "bias": rng.normal(size=5)}
        for _ in range(1 + aux_count)
    ]
    trees = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), trees)
    tx = gsj.surgery(method)

    def run(main, *aux):
        state = tx.init(main)
        for _ in range(3):
            direction, state = jax.jit(tx.update)(main, state, aux=aux)
        return direction, state

    sharded = [jax.device_put(tree, spec) for tree in trees]
    direction, state = run(*sharded)
    expected, _ = run(*trees)
    assert_allclose(flat(direction), flat(expected), rtol=1e-4, atol=1e-5)
    for tree in (direction, *state.averages):
        assert tree["matrix"].sharding.is_equivalent_to(spec["matrix"], 2)


@pytest.mark.slow
@pytest.mark.parametrize("method", [gs.bloop(lam=0.1), gs.gradvac()], ids=repr)
def test_a_state_saved_with_orbax_resumes_bit_for_bit(method, tmp_path):
    tx = optax.chain(gsj.surgery(method), optax.adam(0.1))
    params, state = train(tx, 3)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "state", (params, state))
    with ocp.StandardCheckpointer() as checkpointer:
        restored = checkpointer.restore(tmp_path / "state", jax.eval_shape(lambda: (PARAMS, tx.init(PARAMS))))
    straight, _ = train(tx, 3, params, state, start=3)
    resumed, _ = train(tx, 3, *restored, start=3)
    assert_array_equal(flat(resumed), flat(straight))


@every_method
def test_an_unsound_step_changes_no_state_and_is_skipped_by_apply_if_finite(method, aux_count):
    tx = optax.chain(gsj.surgery(method), optax.apply_if_finite(optax.adam(0.1), max_consecutive_errors=3))
    update = jax.jit(tx.update)
    good = [draw_gradients(seed) for seed in range(1 + aux_count)]
    _, state = update(good[0], tx.init(PARAMS), PARAMS, aux=tuple(good[1:]))
    for place, bad in product(range(1 + aux_count), (jnp.nan, jnp.inf)):
        broken = [dict(tree) for tree in good]
        broken[place]["w1"] = broken[place]["w1"].at[1].set(bad)
        updates, after = update(broken[0], state, PARAMS, aux=tuple(broken[1:]))
        assert not flat(updates).any()
        assert not gsj.diagnostics(after)["sound"]
        assert int(after[0].steps) == int(state[0].steps) + 1
        for name in ("averages", "mass", "memory"):
            jax.tree.map(assert_array_equal, getattr(after[0], name), getattr(state[0], name))
        jax.tree.map(assert_array_equal, after[1].inner_state, state[1].inner_state)
        updates, after = update(good[0], after, PARAMS, aux=tuple(good[1:]))
        assert flat(updates).all()


def test_overflowing_inner_products_are_unsound():
    tx = gsj.surgery(gs.bloop(lam=0.1))
    direction, state = tx.update(jnp.full(3, 1e25), tx.init(jnp.zeros(3)), aux=jnp.ones(3))
    assert np.isnan(direction).all()
    assert not flat(state.averages).any()


def test_complex_gradients_count_as_pairs_of_real_ones():
    rng = np.random.default_rng(0)
    main, aux = rng.normal(size=(2, 3, 2)).astype(np.float32)
    tx, step = gsj.surgery(gs.bloop(lam=0.5, rho=None)), gs.Reference(gs.bloop(lam=0.5, rho=None))
    as_complex = [jnp.asarray(pair[:, 0] + 1j * pair[:, 1]) for pair in (main, aux)]
    direction, _ = tx.update(as_complex[0], tx.init(as_complex[0]), aux=as_complex[1])
    expected = step(main.ravel(), aux.ravel()).reshape(3, 2)
    assert_allclose(direction, expected[:, 0] + 1j * expected[:, 1], rtol=1e-5)


NO_F16C = pytest.mark.skipif(
    "SSE4_2" in os.environ.get("XLA_FLAGS", ""), reason="XLA converts float16 by F16C, which SSE4.2 does not have"
)


@pytest.mark.parametrize("half", ["bfloat16", pytest.param("float16", marks=NO_F16C)])
def test_leaves_keep_their_types(half):
    main = {"half": jnp.ones(2, half), "full": jnp.ones(2, jnp.float32)}
    aux = {"half": jnp.full(2, -1.0, jnp.float32), "full": jnp.array([1.0, 3.0], jnp.bfloat16)}
    tx = gsj.surgery(gs.bloop(lam=0.5, rho=None))
    direction, _ = tx.update(main, tx.init(main), aux=aux)
    assert jax.tree.map(lambda leaf: str(leaf.dtype), direction) == {"half": half, "full": "float32"}
    expected = gs.Reference(gs.bloop(lam=0.5, rho=None))(np.ones(4), [1.0, 3.0, -1.0, -1.0])
    assert_allclose(flat(direction), expected, rtol=1e-3)


def test_diagnostics_are_those_of_the_last_step():
    tx = optax.chain(gsj.surgery(gs.bloop(lam=0.5, rho=0.5), measure=True), optax.sgd(0.1))
    state = tx.init(jnp.zeros(2))
    for main, aux in [([2.0, 0.0], [1.0, 1.0]), ([3.0, 4.0], [-5.0, 0.0])]:
        _, state = jax.jit(tx.update)(jnp.array(main), state, aux=jnp.array(aux))
    values = {name: float(value) for name, value in gsj.diagnostics(state).items()}
    expected = {"cos_main_aux": -0.6, "cos_main_average": 0.6, "removed": 1.0, "conflict": 1.0, "sound": 1.0}
    assert {name: values[name] for name in expected} == pytest.approx(expected, abs=1e-6)


def test_diagnostics_cost_no_inner_product_unless_measure_is_set():
    def reductions(**options):
        tx = gsj.surgery(gs.bloop(lam=0.1), **options)
        main = jnp.ones(5)
        return str(jax.make_jaxpr(tx.update)(main, tx.init(main), aux=main)).count("reduce_sum")

    assert (reductions(), reductions(measure=True)) == (3 + 1, 6 + 1)  # one sums over leaves


def test_diagnostics_need_one_surgery_in_the_state():
    with pytest.raises(ValueError, match="one surgery in it; got 0"):
        gsj.diagnostics(optax.adam(0.1).init(PARAMS))


def test_surgery_takes_a_method():
    with pytest.raises(TypeError, match=r"such as gradsurgery.bloop\(lam=0.1\); got 0.1"):
        gsj.surgery(0.1)


BAD_AUX = {
    "missing": (None, TypeError, "aux is missing"),
    "structure": ({"a": jnp.ones(2)}, ValueError, "aux must have the tree structure of main's gradients"),
    "shape": ({"a": jnp.ones(2), "b": jnp.ones(4)}, ValueError, r"aux\['b'\] must have the shape .*\(3,\); got \(4,\)"),
    "empty": ((), ValueError, "but it is empty"),
    "integers": ({"a": jnp.ones(2), "b": jnp.ones(3, int)}, TypeError, r"aux\['b'\] is of type int32"),
    "second": (({"a": jnp.ones(2), "b": jnp.ones(3)}, 1.0), ValueError, r"aux\[1\] must have the tree structure"),
    "too many": (({"a": jnp.ones(2), "b": jnp.ones(3)},) * 2, ValueError, "takes 1 auxiliary gradient; got 2"),
}


@pytest.mark.parametrize(("aux", "error", "sentence"), BAD_AUX.values(), ids=BAD_AUX)
def test_bad_auxiliary_gradients_get_one_sentence_at_trace_time(aux, error, sentence):
    tx = gsj.surgery(gs.bloop(lam=0.1))
    main = {"a": jnp.ones(2), "b": jnp.ones(3)}
    state = tx.init(main)
    with pytest.raises(error, match=sentence) as raised:
        jax.eval_shape(lambda main, state: tx.update(main, state, aux=aux), main, state)
    assert "\n" not in str(raised.value)


def test_main_gradients_of_integers_are_refused():
    tx = gsj.surgery(gs.bloop(lam=0.1))
    with pytest.raises(TypeError, match="but main is of type int32"):
        tx.update(jnp.ones(3, int), tx.init(jnp.ones(3)), aux=jnp.ones(3))


@pytest.mark.parametrize(("leaf", "sentence"), [
    (1.0, r"^parameters are arrays, but params\['w'\] is of type float$"),
    (jnp.ones(3, int), r"^parameters are real or complex numbers, but params\['w'\] is of type int32$"),
])  # fmt: skip
@pytest.mark.parametrize("wrap", [lambda tx: tx, lambda tx: gsj.accumulate(tx, every=2)], ids=["surgery", "accumulate"])
def test_parameters_that_are_not_float_arrays_are_refused(leaf, sentence, wrap):
    with pytest.raises(TypeError, match=sentence):
        wrap(gsj.surgery(gs.bloop(lam=0.1))).init({"w": leaf})


def test_gradients_that_are_python_floats_are_refused():
    tx = gsj.surgery(gs.bloop(lam=0.1))
    with pytest.raises(TypeError, match=r"^gradients are arrays, but main\['w'\] is of type float$"):
        tx.update({"w": 1.0}, tx.init({"w": jnp.ones(())}), aux={"w": 1.0})


@pytest.mark.parametrize(("other", "sentence"), [
    (gs.bloop(lam=0.1), r"must have 2 averages and 0 numbers in memory; got one with 1 average and 0 numbers"),
    (gs.gradvac(), r"must have 2 averages and 0 numbers in memory; got one with 0 averages and 1 number in memory"),
], ids=repr)  # fmt: skip
def test_the_state_of_another_method_is_refused(other, sentence):
    main = jnp.ones(3)
    with pytest.raises(ValueError, match=sentence):
        gsj.surgery(gs.bloop(lam=(0.1, 0.1))).update(main, gsj.surgery(other).init(main), aux=(main, main))


def test_the_state_of_other_parameters_is_refused():
    tx = gsj.surgery(gs.bloop(lam=0.1))
    with pytest.raises(ValueError, match="averages in the state must have the tree structure of main's gradients"):
        tx.update({"a": jnp.ones(3)}, tx.init({"b": jnp.ones(3)}), aux={"a": jnp.ones(3)})


def test_a_state_for_parameters_of_other_shapes_is_refused():
    tx = gsj.surgery(gs.bloop(lam=0.1))
    with pytest.raises(ValueError, match=r"\(2, 3\) for main, but the state has one of shape \(1, 3\)"):
        tx.update(jnp.ones((2, 3)), tx.init(jnp.ones((1, 3))), aux=jnp.ones((2, 3)))


@pytest.mark.parametrize(("method", "options"), [
    (gs.bloop(lam=0.1), {}),
    (gs.bloop(lam=0.1), {"average_dtype": jnp.bfloat16}),
    (gs.pcd(tau=0.3), {}),
], ids=["bloop", "average_dtype", "pcd"])  # fmt: skip
@pytest.mark.parametrize("half", ["bfloat16", "float16"])
def test_a_state_that_was_cast_to_16_bits_is_refused(method, options, half):
    tx, main = gsj.surgery(method, **options), jnp.ones(3)
    state = jax.tree.map(lambda leaf: leaf.astype(half) if leaf.dtype == jnp.float32 else leaf, tx.init(main))
    with pytest.raises(TypeError, match=f"in the state must be float32 or wider; got {half}: .*was cast"):
        tx.update(main, state, aux=main)


def test_a_state_without_diagnostics_gets_them_in_the_next_step():
    main = jnp.ones(3)
    state = gsj.surgery(gs.bloop(lam=0.1)).init(main)
    _, state = gsj.surgery(gs.bloop(lam=0.1), measure=True).update(main, state, aux=main)
    assert "cos_main_aux" in state.diagnostics
    _, state = gsj.surgery(gs.bloop(lam=0.1)).update(main, state, aux=main)
    assert "cos_main_aux" not in state.diagnostics


MASKS = {
    "masked": lambda tx: optax.masked(tx, {"a": True, "b": False}),
    "partition": lambda tx: optax.partition({"on": tx, "off": optax.set_to_zero()}, {"a": "on", "b": "off"}),
}


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
@pytest.mark.parametrize("method", [gs.bloop(lam=0.5), gs.bloop(lam=(0.5, 0.5))], ids=["one aux", "two aux"])
def test_aux_is_masked_where_optax_masks_main_alone(mask, method):
    main = {"a": jnp.array([2.0, 0.0]), "b": jnp.array([7.0])}
    aux = tuple({"a": jnp.array([4.0, 6.0 * level]), "b": jnp.array([9.0])} for level in range(1, 1 + method.aux_count))
    surgery = gsj.surgery(method)
    tx = mask(surgery)
    direction, _ = tx.update(main, tx.init(main), main, aux=aux if len(aux) > 1 else aux[0])
    alone = {"a": main["a"]}
    expected, _ = surgery.update(alone, surgery.init(alone), aux=tuple({"a": tree["a"]} for tree in aux))
    assert_array_equal(direction["a"], expected["a"])
