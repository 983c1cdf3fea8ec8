"""Images that fit in device memory: a batch is their indices, and the crop and flip of each."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradsurgery.paper.data.images.arrays import ImageArrays
from gradsurgery.paper.data.images.augment import augment, no_augmentation, random_augmentation
from gradsurgery.paper.data.shuffle import Seeds, epoch_indices, evenly_spaced

Tree = Any


class MemorySource:
    """Batches of images held in memory.

    Args:
        train: images to train on.
        test: held-out images of the same size.
        size: height and width that images are scaled to after augmentation.
        margin: maximum shift of a crop, in pixels of the original images.
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
        """Return the number of training images."""
        return self._train

    def batches(self, batch: int, shard: slice, seeds: Seeds, start: int) -> Iterator[Tree]:
        """Iterate over this shard of each training batch, from step ``start`` on."""
        for step in count(start):
            index = epoch_indices(self._train, batch, seeds, step * batch)
            augmentation = random_augmentation(batch, self._margin, (*seeds, step, 1), flips=self._flips)
            yield jax.tree.map(lambda leaf: leaf[shard], {"index": index, "augmentation": augmentation})

    def evaluation_batches(self, held_out: bool, number: int, batch: int, shard: slice) -> Iterator[Tree]:
        """Iterate over this shard of each batch of ``number`` evenly spaced images, without augmentation."""
        first, length = (self._train, self._test) if held_out else (0, self._train)
        for index in (first + evenly_spaced(length, number)).reshape(-1, batch):
            yield {"index": index[shard], "augmentation": no_augmentation(len(index[shard]), self._margin)}

    def images(self, data: Tree, batch: Tree) -> jax.Array:
        """Return the images of a batch, (images, size, size, 3), from 0 to 1."""
        augmented = augment(data["pixels"][batch["index"]], batch["augmentation"], self._margin)
        shape = (len(augmented), self._size, self._size, augmented.shape[-1])
        images = augmented.astype(jnp.float32) / 255
        if images.shape != shape:
            images = jax.image.resize(images, shape, "linear")
        return jnp.broadcast_to(images, (*shape[:3], 3))

    def labels(self, data: Tree, batch: Tree) -> jax.Array:
        """Return the labels of a batch."""
        return data["labels"][batch["index"]]
