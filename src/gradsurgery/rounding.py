"""Stochastic rounding to bfloat16 from a counter, so that averages at half the memory stay unbiased.

Rounding to nearest would lose every update smaller than half a unit in the last of bfloat16's 8 bits, as those of a
small rho are. Rounding up or down at random, with probabilities that make the mean exact, loses none.

A bfloat16 is the upper half of a float32. So 16 random bits are added to the bit pattern, and the lower half is cut
off. The bits are a hash of where and when, not of a generator's state, so a resumed run has the same ones:

    key = 0;   key = mix(key + word + 0x9E3779B9)   for each word: step, level, leaf
    noise[i] = mix(key + i) >> 16
    rounded[i] = (bits of value[i] + noise[i]) & 0xFFFF0000

``step`` counts the steps before this one, ``level`` the averages (0 for main's), ``leaf`` the parameters in the order
of the surgery, and i the elements of the leaf in row-major order. Where a process sees only its shard of a leaf, i
counts within the shard, and its index among the shards is one more word.

All arithmetic is modulo 2**32 on uint32. ``mix``, ``noise`` and ``stream_key`` use operators only, so they run on
arrays of numpy and of jax. int32 gives the same bits if the copies of the sign are masked out after each ``>>``.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

UInt32: TypeAlias = Any
"""An array or scalar of type uint32, of numpy or jax."""


def mix(x: UInt32) -> UInt32:
    """The finaliser of MurmurHash3: one changed bit of the input changes about half of the output's.

    Example:
        >>> [hex(value) for value in mix(np.arange(3, dtype=np.uint32))]
        ['0x0', '0x514e28b7', '0x30f4c306']
    """
    x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
    return x ^ (x >> 16)


def stream_key(*words: int | UInt32) -> UInt32:
    """The key of one leaf in one step, from ``step, level, leaf``.

    Example:
        >>> hex(stream_key(7, 0, 2))
        '0xc0b9fb94'
    """
    key: UInt32 = np.uint32(0)
    with np.errstate(over="ignore"):  # numpy warns if a scalar wraps around
        for word in words:
            key = mix(key + word + np.uint32(0x9E3779B9))
    return key


def noise(key: UInt32, positions: UInt32) -> UInt32:
    """The random bits of the elements at these positions: 0 to 65,535.

    Example:
        >>> noise(stream_key(7, 0, 2), np.arange(4, dtype=np.uint32))
        array([63417, 44128, 49262, 54460], dtype=uint32)
    """
    return mix(key + positions) >> 16


def round_to_bfloat16(values: NDArray[np.float32], key: np.uint32) -> NDArray[np.float32]:
    """Round each element to one of its two neighbours in bfloat16, so that the mean over keys is the value itself.

    A value that bfloat16 can represent is unchanged, as are infinities; NaN stays NaN. A finite value above the largest
    bfloat16 may round to infinity. This is the specification that the front ends are tested against.

    Example:
        >>> values = np.full(4, 1.005859375, np.float32)     # 3/4 of the way from 1 to 1.0078125
        >>> round_to_bfloat16(values, stream_key(3, 0, 2))
        array([1.       , 1.0078125, 1.0078125, 1.       ], dtype=float32)
    """
    positions = np.arange(values.size, dtype=np.uint32)
    rounded = (values.ravel().view(np.uint32) + noise(key, positions)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(values), np.float32(np.nan), rounded.view(np.float32).reshape(values.shape))
