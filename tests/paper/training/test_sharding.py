"""Training on eight devices, with the state copied to each or split over all: the numbers are those of one device."""

import jax
import numpy as np
import pytest

from gradsurgery.lab.errors import UserError
from gradsurgery.paper.training.batch_slices import BatchSlices
from gradsurgery.paper.training.checkpoint import Checkpoint
from gradsurgery.paper.training.sharding import Placement
from tests.lab.sweep.toy import install
from tests.paper.runs import build, make_run, train
from tests.paper.training.regression import REFERENCE, WIDTH

pytestmark = pytest.mark.usefixtures("unoptimised")  # programs for eight devices take long to compile
DEVICES = jax.devices()
TOLERANCE = 1e-4
SMALL = {"rows": "2", "evaluated": "1"}
IMAGES = {"train_images": "64", "epochs": "2", "rows_per_epoch": "1", "evaluated": "64", "blocks": "1", "width": "4"}


@pytest.fixture(autouse=True)
def one_device():
    """Replaces the fixture that leaves one device: here all eight are used."""


def train_on(monkeypatch, devices, name, settings):
    monkeypatch.setattr(jax, "devices", lambda: DEVICES[:devices])
    run = make_run(name, **settings)
    return train(build(run), run)


def assert_same_rows(rows, expected):
    """Up to the rounding of float32: devices sum their shares of a batch in another order.

    Two or three steps keep it small: training amplifies it tenfold in a few steps more.
    """
    for row, other in zip(rows, expected, strict=True):
        assert row == pytest.approx(other, rel=TOLERANCE, abs=TOLERANCE)


def held_fractions(state, least=1):
    """The fraction of each array with at least so many elements that the first device holds."""
    return [leaf.addressable_shards[0].data.size / leaf.size for leaf in jax.tree.leaves(state) if leaf.size >= least]


@pytest.fixture
def fractions(monkeypatch):
    """The fraction of each array of batches that one of several devices gets, in the order of placement."""
    recorded, place_batches = [], Placement.place_batches

    def record(self, tree, axis):
        placed = place_batches(self, tree, axis)
        if self._count > 1:
            recorded.extend(held_fractions(placed))
        return placed

    monkeypatch.setattr(Placement, "place_batches", record)
    return recorded


@pytest.mark.parametrize("scan", ["true", pytest.param("false", marks=pytest.mark.slow)])
@pytest.mark.parametrize("sharded", ["true", pytest.param("false", marks=pytest.mark.slow)])
def test_eight_devices_train_as_one(monkeypatch, fractions, scan, sharded):
    install(monkeypatch.setitem, "regression", REFERENCE)
    settings = {"scan": scan, "sharded": sharded, "chunks": "2"}
    _, expected = train_on(monkeypatch, 1, "regression", settings)
    state, rows = train_on(monkeypatch, 8, "regression", settings)
    assert_same_rows(rows, expected)
    assert set(held_fractions(state, WIDTH)) == ({1 / 8} if sharded == "true" else {1.0})
    assert fractions == [1.0, *[1 / 8] * (2 if scan == "true" else 6)], "the data, then the batches"


@pytest.mark.slow
def test_eight_devices_share_a_transformer_and_its_batches(monkeypatch, fractions):
    settings = {"steps": "2", "sharded": "true", **SMALL}
    _, expected = train_on(monkeypatch, 1, "language", settings)
    state, rows = train_on(monkeypatch, 8, "language", settings)
    assert_same_rows(rows, expected)
    held = held_fractions(state, 1024)
    assert len(held) > 10
    assert set(held) == set(fractions) == {1 / 8}


@pytest.mark.parametrize(
    ("name", "settings", "not_split"),
    [("lipschitz", {"epochs": "1"}, []), ("translation", {"steps": "2", "rows": "2"}, [1.0, 1.0])],
)
def test_batches_are_split_over_the_devices_and_bucket_numbers_are_not(monkeypatch, name, settings, not_split):
    monkeypatch.setattr(jax, "devices", lambda: DEVICES)
    run = make_run(name, **settings)
    task = build(run)
    held = held_fractions(task._placement.place_batches(task._stacked_batches(run.seed, 0), axis=1))
    assert [fraction for fraction in held if fraction != 1 / 8] == not_split
    assert len(held) > len(not_split)


@pytest.mark.slow
def test_eight_devices_share_images_and_average_their_statistics(monkeypatch, fractions):
    single, expected = train_on(monkeypatch, 1, "imagenet-cifar10", IMAGES)
    state, rows = train_on(monkeypatch, 8, "imagenet-cifar10", IMAGES)
    assert_same_rows(rows, expected)
    for leaf, other in zip(jax.tree.leaves(state.extra), jax.tree.leaves(single.extra), strict=True):
        np.testing.assert_allclose(leaf, other, rtol=TOLERANCE, atol=TOLERANCE)
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
    with pytest.raises(UserError, match=f"8 devices share each batch.*; got a batch of {batch} and {evaluated}"):
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
