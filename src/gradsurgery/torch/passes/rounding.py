"""Stochastic rounding to bfloat16 with PyTorch operations: the same bits as ``gradsurgery.rounding``.

PyTorch has few operations on uint32, so the hash runs on int32, whose products wrap around likewise; the copies of the
sign that ``>>`` shifts in are masked out.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from gradsurgery.rounding import stream_key

Origins = tuple[tuple[int, int, int], ...]
"""Where elements come from, in order: the position of the parameter, the first element, the number of elements."""


def round_to_bfloat16(values: Tensor, step: int, level: int, origins: Origins) -> Tensor:
    """Round float32 values to one of their two neighbours in bfloat16, which float32 can represent.

    Args:
        values: a 1-d tensor.
        step: the number of steps before this one.
        level: which average it is: 0 for main's.
        origins: where the elements come from.
    """
    noise = _shift(_mix(_counters(step, level, origins, values.device)), 16)
    rounded = ((values.view(torch.int32) + noise) & -0x10000).view(torch.float32)
    return torch.where(values.isnan(), values, rounded)


def _counters(step: int, level: int, origins: Origins, device: torch.device) -> Tensor:
    """For each element, the key of its parameter plus its index."""
    if len(origins) == 1:
        ((position, start, size),) = origins
        key = _signed(int(stream_key(step, level, position)) + start)
        return torch.arange(size, dtype=torch.int32, device=device) + key
    positions, elements = _places(origins, device)
    return _mix(positions + _signed(int(stream_key(step, level)) + 0x9E3779B9)) + elements


@lru_cache(maxsize=16)
def _places(origins: Origins, device: torch.device) -> tuple[Tensor, Tensor]:
    """For each element of a merged piece, the position of its parameter and its index there; kept on the device."""
    positions = np.concatenate([np.full(size, position, np.int32) for position, _, size in origins])
    elements = np.concatenate([np.arange(size, dtype=np.int32) + start for _, start, size in origins])
    return torch.from_numpy(positions).to(device), torch.from_numpy(elements).to(device)


def _mix(x: Tensor) -> Tensor:
    """The finaliser of MurmurHash3."""
    x = (x ^ _shift(x, 16)) * _signed(0x85EBCA6B)
    x = (x ^ _shift(x, 13)) * _signed(0xC2B2AE35)
    return x ^ _shift(x, 16)


def _shift(x: Tensor, bits: int) -> Tensor:
    """The logical right shift of int32."""
    return (x >> bits) & (2 ** (32 - bits) - 1)


def _signed(word: int) -> int:
    """The int32 with the bits of a word modulo 2**32."""
    return (word + 2**31) % 2**32 - 2**31
