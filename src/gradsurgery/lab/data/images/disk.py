"""Images that stay on disk: worker processes read, decode, crop and flip them, and keep ahead of the device.

An image to train on is cropped to 8 to 100 % of its area with sides between 3 : 4 and 4 : 3, scaled to a square, and
flipped every other time, as ImageNet is usually trained on; one to evaluate on is scaled so that the square is 7/8 of
its shorter side, and cropped in the middle. A JPEG is decoded no finer than that needs.

What stands at a place of training follows from the seed and the place, so that a run that is resumed sees what it would
have seen.
"""

import math
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from gradsurgery.lab.data.images.arrays import Array
from gradsurgery.lab.data.images.dataset import ImageDataset
from gradsurgery.lab.data.shuffle import Seeds, epoch_indices, evenly_spaced
from gradsurgery.lab.sweeps.workers import cores, end_with_parent

Tree = Any
CHUNK = 64
"""Images that a worker hands over at once: a whole batch of them would come late, and take much memory."""

AHEAD = 2
"""Batches that workers make ahead."""


class CropBox(NamedTuple):
    """A part of an image, in its pixels."""

    left: float
    upper: float
    right: float
    lower: float


class DiskSource:
    """Images to train on and images held out, of any sizes, made squares of one size.

    Args:
        train: the images to train on.
        test: those held out.
        size: of the squares.
    """

    def __init__(self, train: ImageDataset, test: ImageDataset, *, size: int) -> None:
        self._size, self._train, self._test = size, train, test
        self.classes = train.classes
        self.data: Tree = {}

    def __len__(self) -> int:
        """Of images to train on."""
        return len(self._train)

    def batches(self, batch: int, part: slice, seeds: Seeds, start: int) -> Iterator[Tree]:
        """This part of each batch, from the step ``start`` on."""
        return _batches(_Training(self._train, self._size, batch, part, seeds, start), part)

    def evaluation_batches(self, held_out: bool, number: int, batch: int, part: slice) -> Iterator[Tree]:
        """This part of each batch of so many images to evaluate on, from all over the set."""
        table = self._test if held_out else self._train
        places = evenly_spaced(len(table), number).reshape(-1, batch)[:, part].ravel()
        return _batches(_Evaluation(table, self._size, places), part)

    def images(self, data: Tree, batch: Tree) -> jax.Array:
        """The images of a batch, from 0 to 1."""
        return batch["pixels"].astype(jnp.float32) / 255

    def labels(self, data: Tree, batch: Tree) -> jax.Array:
        """The labels of a batch."""
        return batch["labels"]


def random_crop(width: int, height: int, chance: np.random.Generator) -> CropBox:
    """8 to 100 % of an image, with sides between 3 : 4 and 4 : 3; the middle where none of ten fits."""
    for _ in range(10):
        area = width * height * chance.uniform(0.08, 1)
        ratio = math.exp(chance.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, high = math.sqrt(area * ratio), math.sqrt(area / ratio)
        if wide <= width and high <= height:
            left, upper = chance.uniform(0, width - wide), chance.uniform(0, height - high)
            return CropBox(left, upper, left + wide, upper + high)
    return center_crop(width, height, 1.0)


def center_crop(width: int, height: int, share: float) -> CropBox:
    """The square in the middle of an image, with this share of its shorter side."""
    side = share * min(width, height)
    left, upper = (width - side) / 2, (height - side) / 2
    return CropBox(left, upper, left + side, upper + side)


def crop_and_resize(image: Image.Image, box: CropBox, size: int) -> Array:
    """The pixels of a part of an image, scaled to a square, (size, size, 3)."""
    width, height = image.size
    image.draft("RGB", (int(width * size / (box.right - box.left)), int(height * size / (box.lower - box.upper))))
    across, down = image.size[0] / width, image.size[1] / height  # less than 1 where a JPEG is decoded coarsely
    scaled = (box.left * across, box.upper * down, box.right * across, box.lower * down)
    return np.asarray(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR, box=scaled))


class _Source(Protocol):
    """Examples that grain asks for by their places."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: Any) -> dict[str, Array]: ...


class _Training:
    """One process's examples of each batch, one after the other, from a step on."""

    def __init__(self, table: ImageDataset, size: int, batch: int, part: slice, seeds: Seeds, start: int) -> None:
        self._table, self._size, self._batch, self._part = table, size, batch, part
        self._seeds, self._start = seeds, start

    def __len__(self) -> int:
        return 2**40  # for ever

    def __getitem__(self, place: Any) -> dict[str, Array]:
        step, within = divmod(int(place), self._part.stop - self._part.start)
        place = (self._start + step) * self._batch + self._part.start + within
        number = int(epoch_indices(len(self._table), 1, self._seeds, place)[0])
        chance = np.random.default_rng([*self._seeds, place, 1])
        image = self._table.image(number)
        pixels = crop_and_resize(image, random_crop(*image.size, chance), self._size)
        return {"pixels": pixels[:, ::-1] if chance.random() < 0.5 else pixels, "labels": self._table.labels[number]}


class _Evaluation:
    """The examples at these places of a table."""

    def __init__(self, table: ImageDataset, size: int, places: Array) -> None:
        self._table, self._size, self._places = table, size, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, place: Any) -> dict[str, Array]:
        number = int(self._places[place])
        image = self._table.image(number)
        return {
            "pixels": crop_and_resize(image, center_crop(*image.size, 7 / 8), self._size),
            "labels": self._table.labels[number],
        }


def _init(number: int, count: int) -> None:
    end_with_parent()


def _batches(source: _Source, part: slice) -> Iterator[Tree]:
    """Batches of as many examples as a part has, made by one worker a core."""
    import grain  # slow to import, and small images need none
    from absl import flags

    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()  # grain asks for some, and does not start workers before
    size = part.stop - part.start
    chunk = math.gcd(size, CHUNK)
    workers = min(len(cores()), math.ceil(len(source) / chunk))
    each = max(2, math.ceil(AHEAD * size / chunk / workers))
    ahead = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=each)
    one_by_one = grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)  # in a worker; else 500 chunks in each
    dataset = grain.MapDataset.source(source).batch(chunk).to_iter_dataset(one_by_one)
    with closing(iter(dataset.mp_prefetch(ahead, worker_init_fn=_init))) as chunks:  # its workers end with it
        while together := list(islice(chunks, size // chunk)):
            yield jax.tree.map(lambda *leaves: np.concatenate(leaves), *together)
