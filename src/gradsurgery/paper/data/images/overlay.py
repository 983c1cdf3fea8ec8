"""Digits drawn over pictures, which gives each image two labels.

Each picture gets one digit at one position, the same in every run. The digit is 7/8 as high and wide as the picture,
like MNIST's 28 pixels on CIFAR-10's 32, and is drawn in white ink whose opacity is the digit's brightness. In training
only the picture is cropped and flipped, before the digit is drawn: a flipped or cut digit might not match its label.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from gradsurgery.paper.data.images.arrays import Array, ImageArrays


def place_digits(pictures: ImageArrays, digits: ImageArrays, *, held_out: bool) -> ImageArrays:
    """Return for each picture a layer of its size: a random digit at a random position on black."""
    rng = np.random.default_rng(int(held_out))
    placed = digits[rng.integers(0, len(digits), len(pictures))]
    size = pictures.pixels.shape[1]
    side = size * 7 // 8
    corners = rng.integers(0, size - side + 1, (len(pictures), 2))
    layers: Array = np.zeros((len(pictures), size, size, 1), np.uint8)
    for layer, digit, (down, right) in zip(layers, placed.pixels, corners, strict=True):
        scaled = Image.fromarray(digit[..., 0]).resize((side, side), Image.Resampling.BILINEAR)
        layer[down : down + side, right : right + side, 0] = scaled
    return ImageArrays(layers, placed.labels, digits.classes)


def overlay(pictures: Any, layers: Any) -> jax.Array:
    """Draw digit layers (from 0 to 255) over pictures (from 0 to 1)."""
    opacity = jnp.asarray(layers, jnp.float32) / 255
    return (1 - opacity) * pictures + opacity
