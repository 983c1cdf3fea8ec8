"""Training on eight devices, with the state copied to each or split over all: the numbers are those of one device."""

import jax
import numpy as np
import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.lab.problems import problem
from gradsurgery.lab.train.checkpoint import Checkpoint
from gradsurgery.lab.train.multihost import BatchSlices
from gradsurgery.lab.train.sharding import Placement
from tests.lab.problems.runs import make_run, train

DEVICES = jax.devices()


def train_on(monkeypatch, devices, name, settings):
    monkeypatch.setattr(jax, "devices", lambda: DEVICES[:devices])
    run = make_run(name, **settings)
    return train(problem(name).build(run.settings, None), run)


def assert_same_rows(rows, expected):
    """Up to rounding, which is another in sums over devices, and which training amplifies."""
    for row, other in zip(rows, expected, strict=True):
        assert row == pytest.approx(other, rel=2e-3, abs=2e-3)


@pytest.fixture
def fractions(monkeypatch):
    """The fraction of each array of batches that one of several devices gets, in the order of placement."""
    recorded, place_batches = [], Placement.place_batches

    def record(self, tree, axis):
        placed = place_batches(self, tree, axis)
        if self._count > 1:
            recorded.extend(leaf.addressable_shards[0].data.size / leaf.size for leaf in jax.tree.leaves(placed))
        return placed

    monkeypatch.setattr(Placement, "place_batches", record)
    return recorded


@pytest.mark.slow
@pytest.mark.parametrize(("name", "sharded"), [("language", "true"), ("language", "false"), ("translation", "true")])
def test_eight_devices_train_as_one(monkeypatch, fractions, name, sharded):
    settings = {"steps": "6", "rows": "2", "sharded": sharded}
    _, expected = train_on(monkeypatch, 1, name, settings)
    state, rows = train_on(monkeypatch, 8, name, settings)
    assert_same_rows(rows, expected)
    large = [leaf for leaf in jax.tree.leaves(state) if leaf.size >= 1024]
    assert len(large) > 10
    held = {leaf.addressable_shards[0].data.size / leaf.size for leaf in large}
    assert held == ({1 / 8} if sharded == "true" else {1.0})
    assert set(fractions) == ({1 / 8} if name == "language" else {1 / 8, 1.0}), "only bucket numbers are not split"


@pytest.mark.slow
def test_eight_devices_share_the_batches_of_lipschitz(monkeypatch, fractions):
    _, expected = train_on(monkeypatch, 1, "lipschitz", {"epochs": "2"})
    _, rows = train_on(monkeypatch, 8, "lipschitz", {"epochs": "2"})
    assert_same_rows(rows, expected)
    assert set(fractions[-2:]) == {1 / 8}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weights", "cifar10mnist", "imagenet-cifar10"])
def test_eight_devices_share_images_and_average_their_statistics(monkeypatch, fractions, name):
    settings = {
        "train_images": "128",
        "epochs": "2",
        "rows_per_epoch": "1",
        "evaluated": "64",
        "blocks": "1",
        "width": "4",
    }
    single, expected = train_on(monkeypatch, 1, name, settings)
    state, rows = train_on(monkeypatch, 8, name, settings)
    assert_same_rows(rows, expected)
    for leaf, other in zip(jax.tree.leaves(state.extra), jax.tree.leaves(single.extra), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=2e-3, atol=1e-3)
        assert leaf.sharding.is_fully_replicated
    assert set(fractions[-2:]) == {1 / 8}


def test_arrays_are_split_along_the_longest_axis_that_fits():
    placement = Placement(DEVICES, sharded=True)
    shapes = {(16, 64): (16, 8), (64, 16): (8, 16), (24, 7): (3, 7), (7, 9): (7, 9), (): ()}
    for shape, shard in shapes.items():
        assert placement.place_state(np.zeros(shape)).addressable_shards[0].data.shape == shard


def test_batches_are_split_if_the_devices_divide_them():
    placement = Placement(DEVICES)
    for shape, shard in {(3, 16, 5): (3, 2, 5), (3, 12, 5): (3, 12, 5), (3,): (3,)}.items():
        assert placement.place_batches(np.zeros(shape), axis=1).addressable_shards[0].data.shape == shard
    assert placement.place_batches(np.zeros((8, 8)), axis=None).addressable_shards[0].data.shape == (8, 8)


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
def test_evaluation_batches_are_equal_and_divisible(monkeypatch, devices, batch, evaluated, expected):
    monkeypatch.setattr(jax, "devices", lambda: [None] * devices)
    assert BatchSlices(batch, evaluated).evaluation == (*expected, slice(0, expected[1]))


def test_each_process_makes_its_own_slice(monkeypatch):
    monkeypatch.setattr(jax, "process_count", lambda: 4)
    monkeypatch.setattr(jax, "process_index", lambda: 2)
    slices = BatchSlices(64, 100)
    assert slices.training == slice(32, 48)
    assert slices.evaluation == (96, 48, slice(24, 36))


@pytest.mark.parametrize(("batch", "evaluated"), [(60, 100), (64, 7)])
def test_batches_that_devices_cannot_share_are_one_sentence(batch, evaluated):
    with pytest.raises(UserError, match=f"8 devices share each batch.* but got a batch of {batch} and {evaluated}"):
        BatchSlices(batch, evaluated)


def test_a_checkpoint_of_a_sharded_state_is_restored_sharded(tmp_path):
    state = Placement(DEVICES, sharded=True).place_state({"w": np.arange(64.0).reshape(8, 8), "n": np.zeros((), int)})
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(2, state)
    chunks, restored = checkpoint.restore(state)
    assert chunks == 2
    for leaf, other in zip(jax.tree.leaves(restored), jax.tree.leaves(state), strict=True):
        assert leaf.sharding == other.sharding
        np.testing.assert_array_equal(leaf, other)
