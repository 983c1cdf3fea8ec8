"""Images that stay on disk: worker processes read, decode, crop and flip them ahead of the device.

Training images are augmented as is usual for ImageNet: a random crop of 8 to 100 % of the area with an aspect ratio
from 3:4 to 4:3, scaled to a square, and flipped with probability 1/2. For evaluation the crop is a centred square with
7/8 of the shorter side. The image and augmentation at each position of training follow from the seed, so that a resumed
run sees what it would have seen.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradsurgery.lab.processes import exit_with_parent
from gradsurgery.lab.sweep.cores import available_cores
from gradsurgery.paper.data.images.crop import center_crop, crop_and_resize, random_crop
from gradsurgery.paper.data.images.dataset import ImageDataset
from gradsurgery.paper.data.shuffle import Indices, Seeds, epoch_indices, evenly_spaced

Tree = Any
MESSAGE_IMAGES = 64
"""Images in a message from a worker; whole batches would arrive late and take much memory."""

PREFETCHED_BATCHES = 2

_ENDLESS = 2**40


class DiskSource:
    """Batches of images read from disk, of any size, scaled to squares of ``size`` pixels."""

    def __init__(self, train: ImageDataset, test: ImageDataset, *, size: int) -> None:
        self._size, self._train, self._test = size, train, test
        self.classes = train.classes
        self.data: Tree = {}

    def __len__(self) -> int:
        """Return the number of training images."""
        return len(self._train)

    def batches(self, batch: int, shard: slice, seeds: Seeds, start: int) -> Iterator[Tree]:
        """Iterate over this shard of each training batch, from step ``start`` on."""
        read = partial(_read_augmented, self._train, self._size, batch, shard, seeds, start)
        return _batches(read, _ENDLESS, shard)

    def evaluation_batches(self, held_out: bool, number: int, batch: int, shard: slice) -> Iterator[Tree]:
        """Iterate over this shard of each batch of ``number`` evenly spaced images, without augmentation."""
        dataset = self._test if held_out else self._train
        indices = evenly_spaced(len(dataset), number).reshape(-1, batch)[:, shard].ravel()
        return _batches(partial(_read_centred, dataset, self._size, indices), len(indices), shard)

    def images(self, data: Tree, batch: Tree) -> jax.Array:
        """Return the images of a batch, (images, size, size, 3), from 0 to 1."""
        return batch["pixels"].astype(jnp.float32) / 255

    def labels(self, data: Tree, batch: Tree) -> jax.Array:
        """Return the labels of a batch."""
        return batch["labels"]


def _read_augmented(
    dataset: ImageDataset, size: int, batch: int, shard: slice, seeds: Seeds, start: int, position: int
) -> dict[str, Any]:
    """The example at a position of the shards of all batches, from step ``start`` on."""
    step, offset = divmod(position, shard.stop - shard.start)
    position = (start + step) * batch + shard.start + offset
    index = int(epoch_indices(len(dataset), 1, seeds, position)[0])
    rng = np.random.default_rng([*seeds, position, 1])
    pixels = dataset.read(index, lambda image: crop_and_resize(image, random_crop(*image.size, rng), size))
    return {"pixels": pixels[:, ::-1] if rng.random() < 0.5 else pixels, "labels": dataset.labels[index]}


def _read_centred(dataset: ImageDataset, size: int, indices: Indices, position: int) -> dict[str, Any]:
    index = int(indices[position])
    pixels = dataset.read(index, lambda image: crop_and_resize(image, center_crop(*image.size, 7 / 8), size))
    return {"pixels": pixels, "labels": dataset.labels[index]}


def _init_worker(number: int, count: int) -> None:
    exit_with_parent()


def _batches(read: Callable[[int], dict[str, Any]], count: int, shard: slice) -> Iterator[Tree]:
    """Iterate over batches of the shard's size, of the examples below ``count``: one worker per core of the run."""
    import grain  # slow to import, and images in memory do not need it
    from absl import flags

    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()  # grain reads absl flags, and starts no workers before they are parsed
    size = shard.stop - shard.start
    message = math.gcd(size, MESSAGE_IMAGES)
    cores = int(os.environ.get("NPROC", available_cores()))  # the lab sets the variable to the cores of the run
    workers = min(cores, math.ceil(count / message))
    buffered = max(2, math.ceil(PREFETCHED_BATCHES * size / message / workers))
    prefetch = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=buffered)
    unbuffered = grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)  # default: 500 messages in each worker
    examples = grain.MapDataset.range(count).map(read).batch(message).to_iter_dataset(unbuffered)
    with closing(iter(examples.mp_prefetch(prefetch, worker_init_fn=_init_worker))) as messages:  # stops the workers
        while received := list(islice(messages, size // message)):
            yield jax.tree.map(lambda *leaves: np.concatenate(leaves), *received)
