import jax
import jax.numpy as jnp
import numpy as np

from gradsurgery.lab.data.text.pairs import PairBatch
from gradsurgery.lab.train.buckets import bucketed

LIMITS = (4, 8)


def test_bucketed_loss_and_gradient_are_those_of_the_cut_batch():
    def loss(params, extra, batch):
        assert batch.source.shape[-1] in LIMITS
        return jnp.sum(params["w"] * extra * batch.source) / batch.source.shape[-1]

    def cut(batch, limit):
        return PairBatch(batch.source[:, :limit], batch.target[:, :limit], batch.bucket)

    function = jax.value_and_grad(lambda params, batch: 3 * bucketed(loss, cut, LIMITS)(params, 2.0, batch))
    params, source = {"w": jnp.arange(1.0, 3.0)[:, None]}, jnp.arange(16.0).reshape(2, 8)
    for bucket, limit in enumerate(LIMITS):
        for compiled in (function, jax.jit(function)):
            value, gradient = compiled(params, PairBatch(source, source, jnp.array(bucket)))
            expected = jnp.sum(source[:, :limit], axis=1, keepdims=True) * 6 / limit
            np.testing.assert_allclose(gradient["w"], expected, rtol=1e-6)
            np.testing.assert_allclose(value, jnp.sum(params["w"] * expected), rtol=1e-6)
