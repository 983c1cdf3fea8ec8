"""Digits drawn over pictures."""

import numpy as np

from gradsurgery.paper.data.images.arrays import ImageArrays
from gradsurgery.paper.data.images.builtin import digits, photographs
from gradsurgery.paper.data.images.overlay import overlay, place_digits


def test_each_picture_has_the_same_digit_in_every_run():
    pictures, all_digits = photographs(False)[:50], digits(False)
    first, second = (place_digits(pictures, all_digits, held_out=False) for _ in range(2))
    np.testing.assert_array_equal(first.pixels, second.pixels)
    np.testing.assert_array_equal(first.labels, second.labels)
    assert not np.array_equal(first.labels, place_digits(pictures, all_digits, held_out=True).labels)
    assert len(set(first.labels)) == 10


def test_digits_lie_inside_the_picture_at_random_positions():
    black = ImageArrays(np.zeros((30, 32, 32, 3), np.uint8), np.zeros(30, np.int32), 1)
    white_digit = ImageArrays(np.full((1, 28, 28, 1), 255, np.uint8), np.array([7], np.int32), 10)
    layers = place_digits(black, white_digit, held_out=False)
    assert set(layers.labels) == {7}
    np.testing.assert_array_equal(layers.pixels.sum((1, 2, 3)), 28 * 28 * 255)
    corners = {(int(layer.any(1).argmax()), int(layer.any(0).argmax())) for layer in layers.pixels[..., 0]}
    assert len(corners) > 5


def test_opacity_is_the_brightness_of_the_digit():
    picture = np.full((1, 1, 3, 3), 0.5, np.float32)
    layer = np.array([0, 51, 255], np.uint8).reshape(1, 1, 3, 1)
    np.testing.assert_allclose(overlay(picture, layer)[0, 0, :, 0], [0.5, 0.8 * 0.5 + 0.2, 1.0], rtol=1e-6)
