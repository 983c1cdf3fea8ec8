"""Images by name: a built-in set, a hub id or a local folder, loaded into memory or streamed from disk."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
from PIL import Image

from gradsurgery.lab import UserError
from gradsurgery.paper.data.images.arrays import Array, ImageArrays
from gradsurgery.paper.data.images.builtin import IMAGES
from gradsurgery.paper.data.images.dataset import ImageDataset, class_range
from gradsurgery.paper.data.images.disk import DiskSource
from gradsurgery.paper.data.images.memory import MemorySource

ImageSource: TypeAlias = MemorySource | DiskSource
T = TypeVar("T")


def image_source(
    name: str,
    data_dir: Path | None,
    *,
    from_disk: bool,
    train_images: int,
    test_images: int,
    pixels: int,
    margin: int,
    classes: str,
) -> ImageSource:
    """Return batches of the training and held-out images of a dataset.

    Args:
        name: ``digits``, ``photographs``, or a hub id.
        data_dir: folder whose subfolders stand in for hub ids.
        from_disk: stream the images from disk because they do not fit in memory.
        train_images: maximum number of images to train on.
        test_images: maximum number of held-out images.
        pixels: height and width that all images are scaled to.
        margin: maximum shift of a random crop in pixels; for images in memory only.
        classes: see ``ImageDataset``.
    """

    def both(load: Callable[..., T]) -> tuple[T, T]:
        return (
            load(name, data_dir, held_out=False, count=train_images, classes=classes),
            load(name, data_dir, held_out=True, count=test_images, classes=classes),
        )

    if from_disk:
        return DiskSource(*both(ImageDataset), size=pixels)
    return MemorySource(*both(load_images), size=pixels, margin=margin)


def load_images(name: str, data_dir: Path | None, *, held_out: bool, count: int, classes: str = "all") -> ImageArrays:
    """Load images into memory; for the arguments see ``image_source`` and ``ImageDataset``."""
    if name in IMAGES:
        images = IMAGES[name](held_out)
        first, last = class_range(name, classes, images.classes, held_out=held_out)
        kept = images[(images.labels >= first) & (images.labels <= last)][:count]
        return replace(kept, labels=kept.labels - first, classes=last - first + 1)
    dataset = ImageDataset(name, data_dir, held_out=held_out, classes=classes, count=count)
    pixels: list[Array] = []
    for index in range(len(dataset)):
        decoded = dataset.read(index, _decode)
        if pixels and decoded.shape != pixels[0].shape:
            raise UserError(
                f"images held in memory must all have one size and one number of channels; got {pixels[0].shape} and "
                f"{decoded.shape} in {name}"
            )
        pixels.append(decoded)
    stacked = np.stack(pixels)
    return ImageArrays(stacked if stacked.ndim == 4 else stacked[..., None], dataset.labels, dataset.classes)


def _decode(image: Image.Image) -> Array:
    return np.asarray(image if image.mode == "L" else image.convert("RGB"))
