import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradsurgery.paper.data.text.pairs import PairBatch
from gradsurgery.paper.training.buckets import make_bucketed_loss
from gradsurgery.paper.training.sharding import Placement

LIMITS = (4, 8)
ALL_DEVICES = jax.devices()


@pytest.mark.parametrize("devices", [1, 8])
def test_bucketed_loss_and_gradient_are_those_of_the_cut_batch(devices):
    def loss(params, extra, batch):
        assert batch.source.shape[-1] in LIMITS
        return jnp.sum(params["w"] * extra * batch.source) / batch.source.shape[-1]

    def cut(batch, limit):
        return PairBatch(batch.source[:, :limit], batch.target[:, :limit], batch.bucket)

    function = jax.value_and_grad(lambda params, batch: 3 * make_bucketed_loss(loss, cut, LIMITS)(params, 2.0, batch))
    placement = Placement(ALL_DEVICES[:devices])
    params, source = {"w": jnp.arange(1.0, 9.0)[:, None]}, jnp.arange(64.0).reshape(8, 8)
    for bucket, limit in enumerate(LIMITS):
        batch = placement.place_batches(PairBatch(source, source, jnp.array(bucket)), axis=0)
        assert len(batch.source.sharding.device_set) == devices
        for compiled in (function, jax.jit(function)):
            value, gradient = compiled(placement.place_state(params), batch)
            expected = jnp.sum(source[:, :limit], axis=1, keepdims=True) * 6 / limit
            np.testing.assert_allclose(gradient["w"], expected, rtol=1e-6)
            np.testing.assert_allclose(value, jnp.sum(params["w"] * expected), rtol=1e-6)
