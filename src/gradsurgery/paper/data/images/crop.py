"""Crops of images of any size, scaled to squares; a JPEG is decoded at the lowest resolution that the crop allows."""

import math
from typing import NamedTuple

import numpy as np
from PIL import Image

from gradsurgery.paper.data.images.arrays import Array


class CropBox(NamedTuple):
    """A rectangle in an image, in pixels."""

    left: float
    upper: float
    right: float
    lower: float


def random_crop(width: int, height: int, rng: np.random.Generator) -> CropBox:
    """Draw a crop of 8 to 100 % of an image, from 3:4 to 4:3; the centred square if ten draws do not fit."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        crop_width, crop_height = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if crop_width <= width and crop_height <= height:
            left, upper = rng.uniform(0, width - crop_width), rng.uniform(0, height - crop_height)
            return CropBox(left, upper, left + crop_width, upper + crop_height)
    return center_crop(width, height, 1.0)


def center_crop(width: int, height: int, fraction: float) -> CropBox:
    """Return the centred square with this fraction of the shorter side."""
    side = fraction * min(width, height)
    left, upper = (width - side) / 2, (height - side) / 2
    return CropBox(left, upper, left + side, upper + side)


def crop_and_resize(image: Image.Image, box: CropBox, size: int) -> Array:
    """Return the pixels inside a box, scaled to (size, size, 3)."""
    width, height = image.size
    image.draft("RGB", (int(width * size / (box.right - box.left)), int(height * size / (box.lower - box.upper))))
    across, down = image.size[0] / width, image.size[1] / height  # below 1 if draft() chose a lower JPEG resolution
    scaled = (box.left * across, box.upper * down, box.right * across, box.lower * down)
    return np.asarray(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR, box=scaled))
