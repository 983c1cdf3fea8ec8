"""Sets of images, whole in memory."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gradsurgery.lab.data.images.dataset import Table, span
from gradsurgery.lab.errors import UserError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Images:
    """Images with their labels."""

    pixels: Array
    """(number, height, width, channels) of whole numbers from 0 to 255."""
    labels: Array
    """(number,) from 0."""
    classes: int
    """How many there are."""
    mirrored: bool = True
    """Whether left and right may change places, and the labels stay true."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, chosen: Any) -> "Images":
        return replace(self, pixels=self.pixels[chosen], labels=self.labels[chosen])


def read(name: str, data_dir: Path | None, *, held_out: bool, count: int, classes: str = "all") -> Images:
    """Images of a set that needs no download, or of a dataset, no more than fit in memory.

    Args:
        name: ``digits``, ``photographs``, or a hub id.
        data_dir: a folder that stands in for the hub.
        held_out: whether to take those kept for evaluation.
        count: how many at most.
        classes: see ``Table``.
    """
    if name in BUILT_IN:
        found = BUILT_IN[name](held_out)
        first, last = span(classes, found.classes)
        chosen = found[(found.labels >= first) & (found.labels <= last)][:count]
        return replace(chosen, labels=chosen.labels - first, classes=last - first + 1)
    table = Table(name, data_dir, held_out=held_out, classes=classes, count=count)
    pixels: list[Array] = []
    for place in range(len(table)):
        image = table.image(place)
        decoded = np.asarray(image if image.mode == "L" else image.convert("RGB"))
        if pixels and decoded.shape != pixels[0].shape:
            raise UserError(
                f"images that are kept in memory are of one size and all grey or none, but those of {name} are not"
            )
        pixels.append(decoded)
    whole = np.stack(pixels)
    return Images(whole if whole.ndim == 4 else whole[..., None], table.labels, table.classes)


def digits(held_out: bool) -> Images:
    """scikit-learn's 8 x 8 digits: 1,437 to train and 360 held out."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
    return _part(Images(pixels, labels.astype(np.int32), 10, mirrored=False), held_out)


def photographs(held_out: bool, size: int = 16) -> Images:
    """Squares of scikit-learn's two photographs; the label says of which photograph, and of which half, left or right.

    Each photograph is cut into squares that do not overlap, so that what is held out is seen nowhere in training.
    """
    from sklearn.datasets import load_sample_images

    pixels, labels = [], []
    for number, photograph in enumerate(load_sample_images().images):
        height, width = (side // size for side in photograph.shape[:2])
        squares = photograph[: height * size, : width * size].reshape(height, size, width, size, 3).swapaxes(1, 2)
        pixels.append(squares.reshape(-1, size, size, 3))
        labels.append(np.tile(2 * number + (np.arange(width) >= width // 2), height))
    return _part(Images(np.concatenate(pixels), np.concatenate(labels).astype(np.int32), 4), held_out)


BUILT_IN = {"digits": digits, "photographs": photographs}
"""Sets that need no download: ``held out -> images``."""


def _part(images: Images, held_out: bool) -> Images:
    """A fifth, drawn once and for all, is held out."""
    order = np.random.default_rng(0).permutation(len(images))
    cut = len(images) * 4 // 5
    return images[order[cut:] if held_out else order[:cut]]
