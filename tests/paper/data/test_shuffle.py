import numpy as np

from gradsurgery.paper.data.shuffle import epoch_batches, epoch_indices


def test_each_epoch_has_every_example_once_in_its_own_order():
    epochs = epoch_indices(10, 30, seeds=(0,), start=0).reshape(3, 10)
    for epoch in epochs:
        assert sorted(epoch) == list(range(10))
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_resuming_at_any_position_gives_the_same_order():
    whole = epoch_indices(7, 40, seeds=(3,), start=0)
    for start, count in ((0, 1), (5, 10), (13, 27)):
        np.testing.assert_array_equal(epoch_indices(7, count, seeds=(3,), start=start), whole[start : start + count])


def test_seeds_give_different_orders():
    assert list(epoch_indices(100, 100, seeds=(0,), start=0)) != list(epoch_indices(100, 100, seeds=(1,), start=0))


def test_batches_of_an_epoch_share_no_example():
    batches = epoch_batches(10, 3, seed=0, epoch=1)
    assert batches.shape == (3, 3)
    assert len(set(batches.ravel())) == 9
