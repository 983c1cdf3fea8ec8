"""Residual networks: published parameter counts, a PyTorch twin, and batch statistics by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx
from torch.nn import functional

from gradsurgery.paper.models.functional import Functional
from gradsurgery.paper.models.resnet import ResNet, ResNetConfig
from gradsurgery.paper.training.classification import training_logits


def jit(function):
    """Compile quickly rather than well."""
    return jax.jit(function, compiler_options={"xla_backend_optimization_level": 0})


def test_resnet18_has_as_many_parameters_as_published():
    """ResNet50 is counted in test_vision_problems.py."""
    config = ResNetConfig((2, 2, 2, 2), bottleneck=False)
    network = Functional(lambda rngs: ResNet(config, {"main": 1000}, rngs=rngs))
    params, _ = jax.eval_shape(network.init, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 11_689_512


def set_last_norms(model):
    """Move the last norm of each block away from its initial zero, at which a block is the identity."""
    for block in model.blocks:
        norm = block.path[-1].norm
        norm.scale[...] = jnp.linspace(0.5, 1.5, norm.scale.size)
        norm.bias[...] = jnp.linspace(-0.2, 0.2, norm.bias.size)


def to_torch(array):
    return torch.from_numpy(np.array(array))


def torch_logits(model, config, images):
    """Compute the logits of each head in training mode with PyTorch."""

    def conv_norm(layer, x, stride):
        kernel = to_torch(layer.convolution.kernel).permute(3, 2, 0, 1)
        x = functional.conv2d(x, kernel, stride=stride, padding=kernel.shape[-1] // 2)
        scale, bias = to_torch(layer.norm.scale), to_torch(layer.norm.bias)
        return functional.batch_norm(x, None, None, scale, bias, training=True, eps=1e-5)

    x = to_torch(images).permute(0, 3, 1, 2)
    x = functional.relu(conv_norm(model.stem, x, 1 if config.small_images else 2))
    if not config.small_images:
        x = functional.max_pool2d(x, 3, stride=2, padding=1)
    first_blocks = {sum(config.blocks[:stage]) for stage in range(1, len(config.blocks))}
    for number, block in enumerate(model.blocks):
        block_stride = 2 if number in first_blocks else 1
        strides = [1, block_stride, 1] if config.bottleneck else [block_stride, 1]  # v1.5: the 3 x 3 one strides
        y = x
        for position, (layer, stride) in enumerate(zip(block.path, strides, strict=True)):
            y = conv_norm(layer, functional.relu(y) if position else y, stride)
        x = functional.relu(y + (x if block.shortcut is None else conv_norm(block.shortcut, x, block_stride)))
    x = x.mean((2, 3))
    return {name: x @ to_torch(head.kernel) + to_torch(head.bias) for name, head in model.heads.items()}


@pytest.mark.slow
@pytest.mark.parametrize("config", [ResNetConfig((1, 2), False, 8, True), ResNetConfig((2, 1), True, 8, False)])
def test_logits_equal_those_of_pytorch(config):
    network = Functional(lambda rngs: ResNet(config, {"main": 3, "aux": 5}, rngs=rngs))
    model = network(*jit(network.init)(jax.random.key(0)))
    set_last_norms(model)
    graph, state = nnx.split(model)
    images = jax.random.normal(jax.random.key(1), (4, 32, 32, 3))
    logits = jit(lambda state, images: nnx.merge(graph, state)(images, training=True))(state, images)
    expected = torch_logits(model, config, images)
    assert logits["main"].shape == (4, 3)
    for name in expected:
        np.testing.assert_allclose(logits[name], expected[name], rtol=1e-3, atol=1e-4)


def test_running_statistics_move_a_tenth_of_the_way_to_those_of_the_batch():
    network = Functional(lambda rngs: ResNet(ResNetConfig((1,), False, 4, True), {"main": 3}, rngs=rngs))
    params, statistics = jit(network.init)(jax.random.key(0))
    images = jax.random.uniform(jax.random.key(1), (6, 8, 8, 3))
    step = jit(lambda statistics: training_logits(network, params, statistics, images)[1])
    once = step(statistics)
    twice = step(once)

    kernel = np.asarray(network(params, statistics).stem.convolution.kernel, np.float64)
    padded = np.pad((np.asarray(images, np.float64) - 0.45) / 0.25, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))  # (6, 8, 8, 3, 3, 3)
    outputs = np.einsum("nhwcij,ijco->nhwo", windows, kernel)
    mean, variance = outputs.mean((0, 1, 2)), outputs.var((0, 1, 2))
    for moved, fraction in ((once, 0.1), (twice, 0.19)):
        stem = network(params, moved).stem.norm
        np.testing.assert_allclose(stem.mean, fraction * mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(stem.var, (1 - fraction) + fraction * variance, rtol=1e-4)
