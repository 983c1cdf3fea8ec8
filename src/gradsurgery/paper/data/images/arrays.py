"""Labelled images held in memory as one array."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ImageArrays:
    """Images of one size and their labels."""

    pixels: Array
    """uint8, (images, height, width, channels)."""
    labels: Array
    """(images,), from 0."""
    classes: int
    """Number of classes."""
    flippable: bool = True
    """Whether an image mirrored left to right keeps its label."""

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: Any) -> "ImageArrays":
        """The images at an index, a slice, a mask or several indices."""
        return replace(self, pixels=self.pixels[index], labels=self.labels[index])
