"""Crops and flips."""

import io

import numpy as np
from PIL import Image

from gradsurgery.paper.data.images.augment import Augmentation, augment
from gradsurgery.paper.data.images.crop import center_crop, crop_and_resize, random_crop
from tests.paper.data.image_files import encode_image


def test_random_crops_lie_inside_the_image_with_limited_aspect_ratio():
    rng = np.random.default_rng(0)
    for _ in range(200):
        width, height = (int(side) for side in rng.integers(30, 300, 2))
        box = random_crop(width, height, rng)
        across, down = box.right - box.left, box.lower - box.upper
        assert -1e-9 <= box.left <= box.right <= width + 1e-9
        assert -1e-9 <= box.upper <= box.lower <= height + 1e-9
        assert across * down >= 0.08 * width * height - 1e-6 or across == down == min(width, height)
        assert 3 / 4 - 1e-9 <= across / down <= 4 / 3 + 1e-9


def test_jpeg_decoded_at_low_resolution_shows_the_same_crop_as_a_png():
    ramp = np.linspace(0, 255, 1024, dtype=np.float32)
    pixels = np.stack([np.broadcast_to(ramp, (1024, 1024)), *[np.broadcast_to(ramp[:, None], (1024, 1024))] * 2], -1)
    box = center_crop(1024, 1024, 0.5)
    jpeg, png = (
        crop_and_resize(Image.open(io.BytesIO(encode_image(pixels.astype(np.uint8), codec=codec)["bytes"])), box, 32)
        for codec in ("JPEG", "PNG")
    )
    np.testing.assert_allclose(jpeg.astype(int), png.astype(int), atol=6)


def test_shift_and_flip_by_hand():
    image = np.arange(1, 10, dtype=np.uint8).reshape(1, 3, 3, 1)
    shifted = augment(image, Augmentation(np.array([[0, 1]]), np.array([False])), 1)
    np.testing.assert_array_equal(shifted[0, ..., 0], [[0, 0, 0], [1, 2, 3], [4, 5, 6]])
    flipped = augment(image, Augmentation(np.array([[1, 1]]), np.array([True])), 1)
    np.testing.assert_array_equal(flipped[0, ..., 0], image[0, :, ::-1, 0])
