"""Crops and flips: which, is chosen on the host, so that it can be told again; done on the device."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradsurgery.lab.data.shuffle import Seeds


class Augmentation(NamedTuple):
    """How images are varied, one entry for each."""

    shift: Any
    """(number, 2), how far the crop is moved down and to the right, from 0 to twice the margin."""
    flip: Any
    """(number,), whether left and right change places."""


def random_augmentation(count: int, margin: int, seeds: Seeds, *, flips: bool) -> Augmentation:
    """Any crop is as likely as any other; so is either side, if images may be flipped."""
    chance = np.random.default_rng(seeds)
    shift = chance.integers(0, 2 * margin + 1, (count, 2), np.int32)
    return Augmentation(shift, (chance.random(count) < 0.5) & flips)


def no_augmentation(count: int, margin: int) -> Augmentation:
    """Images as they are."""
    return Augmentation(np.full((count, 2), margin, np.int32), np.zeros(count, bool))


def augment(images: jax.Array, augmentation: Augmentation, margin: int) -> jax.Array:
    """Images (number, height, width, channels), flipped, and moved by up to the margin; what comes in is black."""
    flipped = jnp.where(augmentation.flip[:, None, None, None], images[:, :, ::-1], images)
    padded = jnp.pad(flipped, ((0, 0), (margin, margin), (margin, margin), (0, 0)))

    def crop(image: jax.Array, shift: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice(image, (*shift, 0), images.shape[1:])

    return jax.vmap(crop)(padded, augmentation.shift)
