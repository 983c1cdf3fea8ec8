import jax.numpy as jnp
import numpy as np
import pytest

from gradsurgery.paper.training.evaluation import batch_by_batch, mean_losses


def test_batches_are_weighted():
    sets = {"first": jnp.array([[1.0, 0.0], [2.0, 4.0]]), "second": jnp.array([[5.0, 5.0], [0.0, 3.0]])}

    def loss(batch):  # the mean over what is not zero, as over tokens that are not padding
        return jnp.mean(batch, where=batch != 0)

    losses = mean_losses(loss, sets, lambda batch: jnp.sum(batch != 0))
    assert list(losses) == ["first", "second"]
    np.testing.assert_allclose([losses["first"], losses["second"]], [7 / 3, 13 / 3], rtol=1e-6)


def test_metrics_are_averaged_over_batches_of_both_splits():
    batches = {False: [np.array([1.0, 3.0] * 4), np.array([5.0, 7.0] * 4)], True: [np.full(8, 10.0)]}
    evaluate = batch_by_batch(
        lambda params, extra, data, batch: {"main": params * batch.mean() + extra + data}, batches.__getitem__
    )
    assert evaluate(2.0, 0.5, 0.25) == pytest.approx({"main_train": 8.75, "main_test": 20.75})
