"""Residual networks: ResNet18, ResNet50 (v1.5), and narrower or shallower ones, with one or several heads.

    block(x) = relu(x + f(x)),   f = convolution, norm, relu, ..., norm

In v1.5 the 3 x 3 convolution of a bottleneck has the stride, not the first 1 x 1 one. The last norm of each block is
initialised to zero, so that each block starts as the identity. Large images go through a 7 x 7 stem and max pooling,
small ones (about 32 pixels) through a 3 x 3 stem.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx


@dataclass(frozen=True)
class ResNetConfig:
    """Size of a residual network."""

    blocks: tuple[int, ...]
    """Number of blocks in each stage; each stage after the first halves the resolution and doubles the width."""
    bottleneck: bool
    """Use blocks of 1 x 1, 3 x 3 and 1 x 1 convolutions, whose output is four times as wide, not of two 3 x 3."""
    width: int = 64
    """Channels of the first stage."""
    small_images: bool = False
    """Use the stem for small images."""


class ConvNorm(nnx.Module):
    """A convolution without bias, followed by batch normalisation."""

    def __init__(
        self, inputs: int, outputs: int, size: int, stride: int = 1, *, zero: bool = False, rngs: nnx.Rngs
    ) -> None:
        self.convolution = nnx.Conv(
            inputs,
            outputs,
            (size, size),
            strides=stride,
            padding=size // 2,
            use_bias=False,
            kernel_init=nnx.initializers.variance_scaling(2.0, "fan_out", "truncated_normal"),
            rngs=rngs,
        )
        scale_init = nnx.initializers.zeros if zero else nnx.initializers.ones
        self.norm = nnx.BatchNorm(outputs, momentum=0.9, epsilon=1e-5, scale_init=scale_init, rngs=rngs)

    def __call__(self, x: jax.Array, *, training: bool) -> jax.Array:
        """Return the output, normalised by batch statistics in training and by running statistics otherwise."""
        return self.norm(self.convolution(x), use_running_average=not training)


class ResidualBlock(nnx.Module):
    """Convolutions and a shortcut, which is a 1 x 1 convolution where the shape changes."""

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool, *, rngs: nnx.Rngs) -> None:
        outputs = 4 * width if bottleneck else width
        if bottleneck:
            path = [
                ConvNorm(inputs, width, 1, rngs=rngs),
                ConvNorm(width, width, 3, stride, rngs=rngs),
                ConvNorm(width, outputs, 1, zero=True, rngs=rngs),
            ]
        else:
            path = [
                ConvNorm(inputs, width, 3, stride, rngs=rngs),
                ConvNorm(width, width, 3, zero=True, rngs=rngs),
            ]
        self.path = nnx.List(path)
        reshapes = stride > 1 or inputs != outputs
        self.shortcut: ConvNorm | None = ConvNorm(inputs, outputs, 1, stride, rngs=rngs) if reshapes else None

    def __call__(self, x: jax.Array, *, training: bool) -> jax.Array:
        """Return the block's output."""
        y = x
        for number, layer in enumerate(self.path):
            y = layer(y if number == 0 else nnx.relu(y), training=training)
        return nnx.relu(y + (x if self.shortcut is None else self.shortcut(x, training=training)))


class ResNet(nnx.Module):
    """A residual network with one linear head per task; ``heads`` has the number of classes of each, by name."""

    def __init__(self, config: ResNetConfig, heads: Mapping[str, int], *, rngs: nnx.Rngs) -> None:
        self.small_images = config.small_images
        size, stride = (3, 1) if config.small_images else (7, 2)
        self.stem = ConvNorm(3, config.width, size, stride, rngs=rngs)
        inputs, blocks = config.width, []
        for stage, count in enumerate(config.blocks):
            width = config.width * 2**stage
            for number in range(count):
                stride = 2 if stage > 0 and number == 0 else 1
                blocks.append(ResidualBlock(inputs, width, stride, config.bottleneck, rngs=rngs))
                inputs = 4 * width if config.bottleneck else width
        self.blocks = nnx.List(blocks)
        self.heads = nnx.Dict({name: nnx.Linear(inputs, classes, rngs=rngs) for name, classes in heads.items()})

    def __call__(self, images: jax.Array, *, training: bool) -> dict[str, jax.Array]:
        """Return the logits of each head, (batch, classes), for images (batch, height, width, 3)."""
        x = nnx.relu(self.stem(images, training=training))
        if not self.small_images:
            x = nnx.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))  # type: ignore[no-untyped-call]
        for block in self.blocks:
            x = block(x, training=training)
        x = jnp.mean(x, axis=(1, 2))
        return {name: head(x) for name, head in self.heads.items()}
