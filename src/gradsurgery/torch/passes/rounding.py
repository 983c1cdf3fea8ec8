"""Stochastic rounding to bfloat16 with PyTorch operations: the same bits as ``gradsurgery.rounding``.

PyTorch has few operations on uint32, so the hash runs on int32, whose products wrap around likewise. A shift by 16 bits
is a view of the upper halves, which costs nothing; another shift masks out the copies of the sign.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from gradsurgery.rounding import stream_key

Origins = tuple[tuple[int, int, int], ...]
"""Where elements come from, in order: the position of the parameter, the first element, the number of elements."""


def round_to_bfloat16(values: Tensor, step: int, level: int, origins: Origins) -> Tensor:
    """Round float32 values to one of their two neighbours in bfloat16.

    Args:
        values: a 1-d tensor.
        step: the number of steps before this one.
        level: which average it is: 0 for main's.
        origins: where the elements come from.
    """
    noise = _mix_(_counters(step, level, origins, values.device))
    low, high = _halves(noise)
    low.copy_(high)
    high.zero_()
    noise.masked_fill_(values.isnan(), 0)
    noise += values.view(torch.int32)
    return high.view(torch.bfloat16)


def _counters(step: int, level: int, origins: Origins, device: torch.device) -> Tensor:
    """For each element, the key of its parameter plus its index."""
    if len(origins) == 1:
        ((position, start, size),) = origins
        key = _signed(int(stream_key(step, level, position)) + start)
        return torch.arange(size, dtype=torch.int32, device=device).add_(key)
    positions, elements = _places(origins, device)
    return _mix_(positions + _signed(int(stream_key(step, level)) + 0x9E3779B9)).add_(elements)


@lru_cache(maxsize=16)
def _places(origins: Origins, device: torch.device) -> tuple[Tensor, Tensor]:
    """For each element of a merged piece, the position of its parameter and its index there; kept on the device."""
    positions = np.concatenate([np.full(size, position, np.int32) for position, _, size in origins])
    elements = np.concatenate([np.arange(size, dtype=np.int32) + start for _, start, size in origins])
    return torch.from_numpy(positions).to(device), torch.from_numpy(elements).to(device)


def _mix_(x: Tensor) -> Tensor:
    """The finaliser of MurmurHash3, in place."""
    low, high = _halves(x)
    low ^= high
    x *= _signed(0x85EBCA6B)
    x ^= (x >> 13).bitwise_and_(0x7FFFF)
    x *= _signed(0xC2B2AE35)
    low ^= high
    return x


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """The lower and the upper 16 bits of int32, as views; PyTorch's devices are little-endian."""
    halves = x.view(torch.int16)
    return halves[::2], halves[1::2]


def _signed(word: int) -> int:
    """The int32 with the bits of a word modulo 2**32."""
    return (word + 2**31) % 2**32 - 2**31
