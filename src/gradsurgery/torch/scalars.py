"""Numbers: the type to compute in, where they can be looked at, and what formulas run on."""

import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsurgery.scalar import Scalar

Pairs = tuple[tuple[int, int], ...]
"""Inner products to form, by the places of their factors among the vectors of a block."""

_CODE = {torch.float32: "f", torch.float64: "d"}
_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}


def wide(dtype: torch.dtype) -> torch.dtype:
    """The type to compute in: float32 at least."""
    return torch.promote_types(dtype, torch.float32)


def apart(device: torch.device) -> bool:
    """Whether a device works by itself, so that to look at a number on it is to wait: all but the CPU."""
    return device.type != "cpu"


def widened(vectors: Sequence[Tensor]) -> Sequence[Tensor]:
    """The vectors, gradients first, in the type to compute in; those that have it are not copied."""
    dtype = wide(vectors[0].dtype)
    return vectors if vectors[0].dtype == dtype else [vector.to(dtype) for vector in vectors]


@dataclass(frozen=True)
class Numbers:
    """The scalars of formulas and passes: on a CPU Python's own, the quickest, else 0-d tensors, so that none waits."""

    device: torch.device
    dtype: torch.dtype

    def scalar(self, number: Scalar) -> Scalar:
        """A number as formulas and passes take it, rounded to the type."""
        return self.scalars([number])[0]

    def scalars(self, numbers: Iterable[Scalar]) -> list[Scalar]:
        """Several such numbers."""
        if apart(self.device):
            return [self.tensor(number) for number in numbers]
        plain = [number.item() if isinstance(number, Tensor) else number for number in numbers]
        return array(_CODE[self.dtype], plain).tolist()

    def typed(self, number: Scalar) -> Scalar:
        """A number that shows its type to those who ask, and does not mind to be divided by 0: on a CPU numpy's."""
        return number if apart(self.device) else _NUMPY[self.dtype](number)

    def inverse(self, number: Scalar) -> Scalar:
        """1 / number; NaN for 0."""
        return 1 / number if apart(self.device) or number else math.nan

    def tensor(self, number: Scalar) -> Tensor:
        """A number, or the numbers of a tensor, as a tensor of this type on this device, without waiting for it."""
        if isinstance(number, Tensor):
            return number.detach().to(self.device, self.dtype)
        return torch.full((), float(number), dtype=self.dtype, device=self.device)

    def row(self, numbers: Sequence[Scalar]) -> Tensor:
        """The numbers as one 1-d tensor."""
        return torch.stack([self.tensor(number) for number in numbers])

    def chosen(self, whether: Scalar, new: Scalar, old: Scalar) -> Scalar:
        """The new number or the old."""
        if isinstance(whether, Tensor):
            return torch.where(whether, self.tensor(new), self.tensor(old))  # no branch: it would wait for the device
        return self.scalar(new) if whether else old
