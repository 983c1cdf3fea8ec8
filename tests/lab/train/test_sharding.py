"""Training on eight devices, with the state on each or in parts on all: the numbers are those of one device."""

import jax
import numpy as np
import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.grid import specs
from gradsurgery.lab.problems import problem
from gradsurgery.lab.train.checkpoint import Checkpoint
from gradsurgery.lab.train.multihost import BatchSlices
from gradsurgery.lab.train.sharding import Placement

DEVICES = jax.devices()


def trained(monkeypatch, name, method, devices, settings):
    monkeypatch.setattr(jax, "devices", lambda: DEVICES[:devices])
    one = problem(name)
    (run,) = specs(one, "demo", methods=[method], lams=[0.3], rhos=[0.1], seeds=[0], settings=settings)
    task = one.build(run.settings, None)
    state, rows = task.start(run)
    for chunk in range(task.chunks):
        state, more = task.advance(run, state, chunk)
        rows += more
    return state, rows


@pytest.fixture
def parts(monkeypatch):
    """What share of each array of batches a device gets, as training asks for it."""
    found, place = [], Placement.place_batches

    def recorded(self, tree, axis):
        placed = place(self, tree, axis)
        if self._count > 1:
            found.extend(leaf.addressable_shards[0].data.size / leaf.size for leaf in jax.tree.leaves(placed))
        return placed

    monkeypatch.setattr(Placement, "place_batches", recorded)
    return found


@pytest.mark.parametrize(("name", "sharded"), [("language", "true"), ("language", "false"), ("translation", "true")])
def test_eight_devices_train_as_one(monkeypatch, parts, name, sharded):
    settings = {"steps": "6", "rows": "2", "sharded": sharded}
    _, expected = trained(monkeypatch, name, "bloop", 1, settings)
    state, found = trained(monkeypatch, name, "bloop", 8, settings)
    for row, other in zip(found, expected, strict=True):
        assert row == pytest.approx(other, rel=1e-4, abs=1e-5)
    held = [leaf.addressable_shards[0].data.size / leaf.size for leaf in jax.tree.leaves(state) if leaf.size >= 1024]
    assert len(held) > 10
    assert set(held) == ({1 / 8} if sharded == "true" else {1.0})
    assert set(parts) == ({1 / 8} if name == "language" else {1 / 8, 1.0}), "all but the buckets' numbers are split"


def test_the_images_of_lipschitz_are_shared_out_by_batches(monkeypatch, parts):
    _, expected = trained(monkeypatch, "lipschitz", "bloop", 1, {"epochs": "2"})
    _, found = trained(monkeypatch, "lipschitz", "bloop", 8, {"epochs": "2"})
    for row, other in zip(found, expected, strict=True):
        assert row == pytest.approx(other, rel=1e-3, abs=1e-4)
    assert set(parts[-2:]) == {1 / 8}


@pytest.mark.parametrize("name", ["weights", "cifar10mnist", "imagenet-cifar10"])
def test_images_are_shared_out_by_batches_and_statistics_are_of_all_of_them(monkeypatch, parts, name):
    settings = {
        "train_images": "128",
        "epochs": "2",
        "rows_per_epoch": "1",
        "evaluated": "64",
        "blocks": "1",
        "width": "4",
    }
    before, expected = trained(monkeypatch, name, "bloop", 1, settings)
    state, found = trained(monkeypatch, name, "bloop", 8, settings)
    for row, other in zip(found, expected, strict=True):
        assert row == pytest.approx(other, rel=1e-3, abs=1e-3)
    for leaf, other in zip(jax.tree.leaves(state.extra), jax.tree.leaves(before.extra), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=1e-3, atol=1e-4)
        assert leaf.sharding.is_fully_replicated
    assert set(parts[-2:]) == {1 / 8}


def test_arrays_are_split_along_the_longest_axis_that_fits():
    place = Placement(DEVICES, sharded=True)
    shapes = {(16, 64): (16, 8), (64, 16): (8, 16), (24, 7): (3, 7), (7, 9): (7, 9), (): ()}
    for shape, part in shapes.items():
        assert place.place_state(np.zeros(shape)).addressable_shards[0].data.shape == part


def test_batches_are_split_where_the_devices_divide_them():
    place = Placement(DEVICES)
    for shape, part in {(3, 16, 5): (3, 2, 5), (3, 12, 5): (3, 12, 5), (3,): (3,)}.items():
        assert place.place_batches(np.zeros(shape), axis=1).addressable_shards[0].data.shape == part
    assert place.place_batches(np.zeros((8, 8)), axis=None).addressable_shards[0].data.shape == (8, 8)


@pytest.mark.parametrize(
    ("devices", "batch", "evaluated", "expected"),
    [
        (1, 2048, 50_000, (50_000, 2000)),
        (8, 2048, 50_000, (50_000, 2000)),
        (64, 2048, 50_000, (49_600, 1984)),
        (1, 64, 1009, (1008, 63)),
        (1, 32, 1000, (1000, 25)),
        (1, 64, 20, (20, 20)),
    ],
)
def test_devices_share_what_is_evaluated_equally(monkeypatch, devices, batch, evaluated, expected):
    monkeypatch.setattr(jax, "devices", lambda: [None] * devices)
    parts = BatchSlices(batch, evaluated)
    assert parts.evaluation == (*expected, slice(0, expected[1]))


def test_each_process_makes_its_own_part(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 4)
    monkeypatch.setattr(jax, "process_index", lambda: 2)
    parts = BatchSlices(64, 100)
    assert parts.training == slice(32, 48)
    assert parts.evaluation == (96, 48, slice(24, 36))


@pytest.mark.parametrize(("batch", "evaluated"), [(60, 100), (64, 7)])
def test_what_devices_cannot_share_gets_one_sentence(batch, evaluated):
    with pytest.raises(UserError, match=f"8 devices share each batch.* but got a batch of {batch} and {evaluated}"):
        BatchSlices(batch, evaluated)


def test_a_checkpoint_comes_back_in_parts(tmp_path):
    state = Placement(DEVICES, sharded=True).place_state({"w": np.arange(64.0).reshape(8, 8), "n": np.zeros((), int)})
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(2, state)
    chunks, restored = checkpoint.restore(state)
    assert chunks == 2
    for leaf, other in zip(jax.tree.leaves(restored), jax.tree.leaves(state), strict=True):
        assert leaf.sharding == other.sharding
        np.testing.assert_array_equal(leaf, other)
