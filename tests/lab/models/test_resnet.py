"""Residual networks: the published numbers of parameters, a twin in plain torch, and batch statistics by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch.nn import functional

from gradsurgery.lab.models.functional import Functional
from gradsurgery.lab.models.resnet import ResNet, ResNetConfig
from gradsurgery.lab.problems.classification import trained_on


@pytest.mark.parametrize(
    ("shape", "count"),
    [
        (ResNetConfig((2, 2, 2, 2), bottleneck=False), 11_689_512),  # ResNet18
        (ResNetConfig((3, 4, 6, 3), bottleneck=True), 25_557_032),  # ResNet50
    ],
)
def test_parameters_are_as_many_as_published(shape, count):
    network = Functional(lambda rngs: ResNet(shape, {"main": 1000}, rngs=rngs))
    params, _ = jax.eval_shape(network.init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == count


def awake(model):
    """The model with the last norm of each block no longer at zero."""
    for block in model.blocks:
        norm = block.path[-1].norm
        norm.scale[...] = jnp.linspace(0.5, 1.5, norm.scale.size)
        norm.bias[...] = jnp.linspace(-0.2, 0.2, norm.bias.size)
    return model


def twin(model, shape, images):
    """The logits of each head by torch's functions, in training."""

    def normed(layer, x, stride):
        kernel = torch.from_numpy(np.array(layer.convolution.kernel)).permute(3, 2, 0, 1)
        x = functional.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
        scale, bias = (torch.from_numpy(np.array(one)) for one in (layer.norm.scale, layer.norm.bias))
        return functional.batch_norm(x, None, None, scale, bias, training=True, eps=1e-5)

    x = torch.from_numpy(np.array(images)).permute(0, 3, 1, 2)
    x = functional.relu(normed(model.stem, x, 1 if shape.small_images else 2))
    if not shape.small_images:
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
    firsts = {sum(shape.blocks[:stage]) for stage in range(1, len(shape.blocks))}
    for number, block in enumerate(model.blocks):
        stride = 2 if number in firsts else 1
        strides = [1, stride, 1] if shape.bottleneck else [stride, 1]  # of v1.5: the 3 x 3 one strides
        found = x
        for place, (layer, one) in enumerate(zip(block.path, strides, strict=True)):
            found = normed(layer, functional.relu(found) if place else found, one)
        x = functional.relu(found + (x if block.shortcut is None else normed(block.shortcut, x, stride)))
    x = x.mean((2, 3))
    return {
        name: x @ torch.from_numpy(np.array(head.kernel)) + torch.from_numpy(np.array(head.bias))
        for name, head in model.heads.items()
    }


@pytest.mark.parametrize("shape", [ResNetConfig((1, 2), False, 8, True), ResNetConfig((2, 1), True, 8, False)])
def test_a_twin_in_plain_torch_says_the_same(shape):
    model = awake(ResNet(shape, {"main": 3, "aux": 5}, rngs=nnx.Rngs(0)))
    images = jax.random.normal(jax.random.key(1), (4, 32, 32, 3))
    found, expected = model(images, training=True), twin(model, shape, images)
    assert found["main"].shape == (4, 3)
    for name, logits in found.items():
        np.testing.assert_allclose(logits, expected[name], rtol=1e-3, atol=1e-4)


def test_a_batch_moves_the_statistics_by_a_tenth_of_the_way_to_its_own():
    network = Functional(lambda rngs: ResNet(ResNetConfig((1,), False, 4, True), {"main": 3}, rngs=rngs))
    params, statistics = network.init(jax.random.key(0))
    images = jax.random.uniform(jax.random.key(1), (6, 8, 8, 3))
    _, once = trained_on(network, params, statistics, images)
    _, twice = trained_on(network, params, once, images)

    kernel = np.asarray(network(params, statistics).stem.convolution.kernel, np.float64)
    padded = np.pad((np.asarray(images, np.float64) - 0.45) / 0.25, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))  # (6, 8, 8, 3, 3, 3)
    outputs = np.einsum("nhwcij,ijco->nhwo", windows, kernel)
    mean, variance = outputs.mean((0, 1, 2)), outputs.var((0, 1, 2))
    for found, share in ((once, 0.1), (twice, 0.19)):
        stem = network(params, found).stem.norm
        np.testing.assert_allclose(stem.mean, share * mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(stem.var, (1 - share) + share * variance, rtol=1e-4)
