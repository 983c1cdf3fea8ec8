"""Images that need no download: scikit-learn's digits and two photographs, cut into tiles."""

from collections.abc import Callable

import numpy as np

from gradsurgery.paper.data.holdout import split_off_fifth
from gradsurgery.paper.data.images.arrays import ImageArrays


def digits(held_out: bool) -> ImageArrays:
    """Return scikit-learn's 8 x 8 digits: 1,437 to train on, 360 held out."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = (pixels.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
    chosen = split_off_fifth(len(labels), held_out=held_out)
    return ImageArrays(images[chosen], labels[chosen].astype(np.int32), 10, flippable=False)


def photographs(held_out: bool, size: int = 16) -> ImageArrays:
    """Return tiles of scikit-learn's two photographs, labelled by photograph and by half, left or right.

    Tiles do not overlap, so no held-out pixel is seen in training.
    """
    from sklearn.datasets import load_sample_images

    pixels, labels = [], []
    for number, photograph in enumerate(load_sample_images().images):
        height, width = (side // size for side in photograph.shape[:2])
        tiles = photograph[: height * size, : width * size].reshape(height, size, width, size, 3).swapaxes(1, 2)
        pixels.append(tiles.reshape(-1, size, size, 3))
        labels.append(np.tile(2 * number + (np.arange(width) >= width // 2), height))
    images = ImageArrays(np.concatenate(pixels), np.concatenate(labels).astype(np.int32), 4)
    return images[split_off_fifth(len(images), held_out=held_out)]


IMAGES: dict[str, Callable[[bool], ImageArrays]] = {"digits": digits, "photographs": photographs}
"""Built-in image sets: ``held_out -> images``."""
