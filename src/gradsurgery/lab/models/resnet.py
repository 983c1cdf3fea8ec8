"""Residual networks for images: ResNet18 and ResNet50 (v1.5), and narrower and shallower ones; one head or several.

    block(x) = relu(x + f(x)),   f = convolution, norm, relu, ..., norm

ResNet50 strides in the 3 x 3 convolution of a bottleneck, not in the first one (v1.5). The last norm of each block
starts at zero, so that a block starts as the identity. Large images go through a 7 x 7 stem and pooling; small ones, of
some 32 pixels, through a 3 x 3 stem and none.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from flax import nnx


@dataclass(frozen=True)
class ResNetConfig:
    """The size of a residual network."""

    blocks: tuple[int, ...]
    """In each stage; every stage after the first halves the image and doubles the width."""
    bottleneck: bool
    """Whether a block is 1 x 1, 3 x 3, 1 x 1 and four times as wide outside, and not 3 x 3 twice."""
    width: int = 64
    """Of the first stage."""
    small_images: bool = False


class ConvNorm(nnx.Module):
    """A convolution without bias and the norm of its output.

    A batch's own mean and variance normalise it in training, and move the running ones, which normalise in evaluation.
    """

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
        start = nnx.initializers.zeros if zero else nnx.initializers.ones
        self.norm = nnx.BatchNorm(outputs, momentum=0.9, epsilon=1e-5, scale_init=start, rngs=rngs)

    def __call__(self, x: jax.Array, *, training: bool) -> jax.Array:
        """The normalised output."""
        return self.norm(self.convolution(x), use_running_average=not training)


class ResidualBlock(nnx.Module):
    """Convolutions beside a shortcut, which is a convolution of its own where the shape changes."""

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
        changes = stride > 1 or inputs != outputs
        self.shortcut: ConvNorm | None = ConvNorm(inputs, outputs, 1, stride, rngs=rngs) if changes else None

    def __call__(self, x: jax.Array, *, training: bool) -> jax.Array:
        """What goes on to the next block."""
        found = x
        for place, convolution in enumerate(self.path):
            found = convolution(found if place == 0 else nnx.relu(found), training=training)
        return nnx.relu(found + (x if self.shortcut is None else self.shortcut(x, training=training)))


class ResNet(nnx.Module):
    """Images to the logits of each head.

    Args:
        shape: its size.
        heads: how many classes each tells apart, by name.
        rngs: chance for its parameters.
    """

    def __init__(self, shape: ResNetConfig, heads: Mapping[str, int], *, rngs: nnx.Rngs) -> None:
        self.small_images = shape.small_images
        size, stride = (3, 1) if shape.small_images else (7, 2)
        self.stem = ConvNorm(3, shape.width, size, stride, rngs=rngs)
        inputs, blocks = shape.width, []
        for stage, count in enumerate(shape.blocks):
            width = shape.width * 2**stage
            for place in range(count):
                stride = 2 if stage > 0 and place == 0 else 1
                blocks.append(ResidualBlock(inputs, width, stride, shape.bottleneck, rngs=rngs))
                inputs = 4 * width if shape.bottleneck else width
        self.blocks = nnx.List(blocks)
        self.heads = nnx.Dict({name: nnx.Linear(inputs, classes, rngs=rngs) for name, classes in heads.items()})

    def __call__(self, images: jax.Array, *, training: bool) -> dict[str, jax.Array]:
        """Logits by head, (batch, classes), of images (batch, height, width, 3)."""
        x = nnx.relu(self.stem(images, training=training))
        if not self.small_images:
            x = nnx.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))  # type: ignore[no-untyped-call]
        for block in self.blocks:
            x = block(x, training=training)
        x = jnp.mean(x, axis=(1, 2))
        return {name: head(x) for name, head in self.heads.items()}
