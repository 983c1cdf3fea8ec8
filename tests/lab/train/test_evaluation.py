import jax.numpy as jnp
import numpy as np

from gradsurgery.lab.train.evaluation import mean_losses


def test_batches_count_by_their_weight():
    sets = {"one": jnp.array([[1.0, 0.0], [2.0, 4.0]]), "other": jnp.array([[5.0, 5.0], [0.0, 3.0]])}

    def loss(batch):  # the mean of those that are not zero, as of tokens that are not filling
        return jnp.mean(batch, where=batch != 0)

    found = mean_losses(loss, sets, lambda batch: jnp.sum(batch != 0))
    assert list(found) == ["one", "other"]
    np.testing.assert_allclose([found["one"], found["other"]], [7 / 3, 13 / 3], rtol=1e-6)
