"""Inside ``shard_map``, where code sees one shard: inner products are summed over the axes in ``axis_name``."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from numpy.testing import assert_allclose

import gradsurgery as gs
import gradsurgery.jax as gsj
from tests.jax_front.trees import flat
from tests.methods.catalogue import ALL

SHAPES = {"matrix": (8, 4), "bias": (5,), "rows": (3, 8)}
ONE_AXIS = ({"x": 8}, {"matrix": PartitionSpec("x"), "bias": PartitionSpec(), "rows": PartitionSpec(None, "x")})
TWO_AXES = (
    {"x": 4, "y": 2},
    {"matrix": PartitionSpec("x", "y"), "bias": PartitionSpec(), "rows": PartitionSpec(None, "y")},
)
ALL_SHARDED = ({"x": 8}, {"matrix": PartitionSpec("x"), "rows": PartitionSpec(None, "x")})


def run(method, axis_name, gradients, mesh_axes, specs, **options):
    """Three steps, each inside ``shard_map``; the last direction and the averages, as one vector."""
    tx = gsj.surgery(method, axis_name=axis_name)
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(*mesh_axes.values()), tuple(mesh_axes))
    state = tx.init(gradients[0])
    state_specs = jax.tree.map(lambda _: PartitionSpec(), state)._replace(averages=(specs,) * len(state.averages))
    update = jax.jit(
        jax.shard_map(
            lambda main, aux, state: tx.update(main, state, aux=aux),
            mesh=mesh,
            in_specs=(specs, (specs,) * (len(gradients) - 1), state_specs),
            out_specs=(specs, state_specs),
            **options,
        )
    )
    for _ in range(3):
        direction, state = update(gradients[0], tuple(gradients[1:]), state)
    return flat((direction, state.averages))


def unsharded(method, gradients):
    """What ``run`` returns, computed on one device."""
    tx = gsj.surgery(method)
    state = tx.init(gradients[0])
    for _ in range(3):
        direction, state = jax.jit(tx.update)(gradients[0], state, aux=tuple(gradients[1:]))
    return flat((direction, state.averages))


def draw(count, names):
    rng = np.random.default_rng(0)
    return [{name: jnp.asarray(rng.normal(size=SHAPES[name]), jnp.float32) for name in names} for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "aux_count"),
    [ALL[name] for name in ("bloop two levels", "gradvac", "mixed two")],
)
def test_sharded_parameters_give_the_single_device_result(method, aux_count):
    gradients = draw(1 + aux_count, SHAPES)
    assert_allclose(run(method, "x", gradients, *ONE_AXIS), unsharded(method, gradients), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_mesh_of_two_axes_where_some_leaves_are_replicated_over_one():
    method, gradients = gs.bloop(lam=0.5, rho=0.1), draw(2, SHAPES)
    assert_allclose(run(method, ("x", "y"), gradients, *TWO_AXES), unsharded(method, gradients), rtol=1e-4, atol=1e-5)


def test_without_replication_checks_every_leaf_counts_as_sharded():
    method, gradients = gs.bloop(lam=0.5, rho=0.1), draw(2, ["matrix", "rows"])
    sharded = run(method, "x", gradients, *ALL_SHARDED, check_vma=False)
    assert_allclose(sharded, unsharded(method, gradients), rtol=1e-4, atol=1e-5)


def test_without_axis_name_shard_map_refuses_a_state_that_differs_between_shards():
    with pytest.raises(ValueError, match="out_specs"):
        run(gs.bloop(lam=0.5, rho=0.1), None, draw(2, ["matrix", "rows"]), *ALL_SHARDED)


def test_gradients_may_differ_between_shards_where_the_state_does_not():
    mesh = jax.sharding.Mesh(jax.devices(), "x")
    tx = gsj.surgery(gs.bloop(lam=0.5, rho=0.1))
    replicated, sharded = PartitionSpec(), PartitionSpec("x")

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=(replicated, sharded, sharded), out_specs=sharded)
    def update(state, main, aux):
        return tx.update(main, state, aux=aux)[0]

    main, aux = jax.random.normal(jax.random.key(0), (2, 4 * len(jax.devices())))
    assert_allclose(update(tx.init(jnp.zeros(4)), main, aux), main + 0.5 * aux, rtol=1e-6)
