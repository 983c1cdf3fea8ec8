"""The type to compute in, and where numbers can be looked at."""

from collections.abc import Sequence

import torch
from torch import Tensor

Pairs = tuple[tuple[int, int], ...]
"""Inner products to form, by the places of their factors among the vectors of a block."""


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type to compute in: float32 at least."""
    return torch.promote_types(dtype, torch.float32)


def apart(device: torch.device) -> bool:
    """Whether a device works by itself, so that to look at a number on it is to wait: all but the CPU."""
    return device.type != "cpu"


def widened(vectors: Sequence[Tensor]) -> list[Tensor]:
    """The vectors in the type to compute in; those that have it are not copied."""
    dtype = wide(vectors[0].dtype)
    return [vector.to(dtype) for vector in vectors]
