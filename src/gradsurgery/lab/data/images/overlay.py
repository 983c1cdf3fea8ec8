"""Digits laid over pictures: two labels for one image.

Each background gets one digit and one place for it, drawn once and for all. A digit is 7/8 as wide and high as its
background, as MNIST's 28 pixels over CIFAR-10's 32; it is white ink, as opaque as its pixels are bright. Backgrounds
alone are cropped and flipped in training, before the digit is laid over them: a flipped or cut digit would no longer be
what its label says.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from gradsurgery.lab.data.images.arrays import Array, ImageArrays


def place_digits(backgrounds: ImageArrays, digits: ImageArrays, *, held_out: bool) -> ImageArrays:
    """One of these digits for each background, at some place on black, as large as the background."""
    chance = np.random.default_rng(int(held_out))
    chosen = digits[chance.integers(0, len(digits), len(backgrounds))]
    whole = backgrounds.pixels.shape[1]
    side = whole * 7 // 8
    places = chance.integers(0, whole - side + 1, (len(backgrounds), 2))
    pixels: Array = np.zeros((len(backgrounds), whole, whole, 1), np.uint8)
    for ink, digit, (down, right) in zip(pixels, chosen.pixels, places, strict=True):
        scaled = Image.fromarray(digit[..., 0]).resize((side, side), Image.Resampling.BILINEAR)
        ink[down : down + side, right : right + side, 0] = scaled
    return ImageArrays(pixels, chosen.labels, digits.classes)


def overlay(backgrounds: Any, inks: Any) -> jax.Array:
    """Images from 0 to 1, with ink from 0 to 255 laid over them."""
    opacity = jnp.asarray(inks, jnp.float32) / 255
    return (1 - opacity) * backgrounds + opacity
