"""Random crops and flips: drawn on the host, so that they can be reproduced, and applied on the device."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradsurgery.paper.data.shuffle import Seeds


class Augmentation(NamedTuple):
    """The crop and flip of each image of a batch."""

    shift: Any
    """(images, 2): offset of the crop, down and right, in the padded image; from 0 to twice the margin."""
    flip: Any
    """(images,): whether to mirror the image left to right."""


def random_augmentation(count: int, margin: int, seeds: Seeds, *, flips: bool) -> Augmentation:
    """Draw crops uniformly, and flips with probability 1/2 if ``flips``."""
    rng = np.random.default_rng(seeds)
    shift = rng.integers(0, 2 * margin + 1, (count, 2), np.int32)
    return Augmentation(shift, (rng.random(count) < 0.5) & flips)


def no_augmentation(count: int, margin: int) -> Augmentation:
    """Return the augmentation that changes nothing."""
    return Augmentation(np.full((count, 2), margin, np.int32), np.zeros(count, bool))


def augment(images: jax.Array, augmentation: Augmentation, margin: int) -> jax.Array:
    """Flip images (images, height, width, channels), pad them with black by ``margin``, and crop to the old size."""
    flipped = jnp.where(augmentation.flip[:, None, None, None], images[:, :, ::-1], images)
    padded = jnp.pad(flipped, ((0, 0), (margin, margin), (margin, margin), (0, 0)))

    def crop(image: jax.Array, shift: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice(image, (*shift, 0), images.shape[1:])

    return jax.vmap(crop)(padded, augmentation.shift)
