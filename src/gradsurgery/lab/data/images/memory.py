"""Images that fit in the memory of a device: a batch is their numbers, and how each is cropped and flipped."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradsurgery.lab.data.images.arrays import ImageArrays
from gradsurgery.lab.data.images.augment import augment, no_augmentation, random_augmentation
from gradsurgery.lab.data.shuffle import Seeds, epoch_indices, evenly_spaced

Tree = Any


class MemorySource:
    """Images to train on and images held out.

    Args:
        train: the images to train on.
        test: those held out, of the same size.
        size: to which all are enlarged, after they were varied.
        margin: by how many pixels a crop moves at most, of the images as they are.
    """

    def __init__(self, train: ImageArrays, test: ImageArrays, *, size: int, margin: int) -> None:
        self._size, self._margin, self._train, self._test = size, margin, len(train), len(test)
        self._flips = train.flippable
        self.classes = train.classes
        self.data = {
            "pixels": np.concatenate([train.pixels, test.pixels]),
            "labels": np.concatenate([train.labels, test.labels]),
        }

    def __len__(self) -> int:
        """Of images to train on."""
        return self._train

    def batches(self, batch: int, part: slice, seeds: Seeds, start: int) -> Iterator[Tree]:
        """This part of each batch, from the step ``start`` on."""
        for step in count(start):
            index = epoch_indices(self._train, batch, seeds, step * batch)
            augmentation = random_augmentation(batch, self._margin, (*seeds, step, 1), flips=self._flips)
            yield jax.tree.map(lambda leaf: leaf[part], {"index": index, "augmentation": augmentation})

    def evaluation_batches(self, held_out: bool, number: int, batch: int, part: slice) -> Iterator[Tree]:
        """This part of each batch of so many images to evaluate on, from all over the set, none of them varied."""
        first, length = (self._train, self._test) if held_out else (0, self._train)
        for index in (first + evenly_spaced(length, number)).reshape(-1, batch):
            yield {"index": index[part], "augmentation": no_augmentation(len(index[part]), self._margin)}

    def images(self, data: Tree, batch: Tree) -> jax.Array:
        """The images of a batch, from 0 to 1, with three channels."""
        chosen = augment(data["pixels"][batch["index"]], batch["augmentation"], self._margin)
        shape = (len(chosen), self._size, self._size, chosen.shape[-1])
        images = chosen.astype(jnp.float32) / 255
        if images.shape != shape:
            images = jax.image.resize(images, shape, "linear")
        return jnp.broadcast_to(images, (*shape[:3], 3))

    def labels(self, data: Tree, batch: Tree) -> jax.Array:
        """The labels of a batch."""
        return data["labels"][batch["index"]]
