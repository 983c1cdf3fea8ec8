"""Numbers: the type to compute in, where they can be looked at, and what formulas run on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradsurgery.scalar import Scalar

Pairs = tuple[tuple[int, int], ...]
"""Inner products to form, by the places of their factors among the vectors of a block."""


NUMPY = {torch.float32: np.float32, torch.float64: np.float64}
"""The types of formulas, as numpy has them."""


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


@dataclass(frozen=True)
class Numbers:
    """The scalars of formulas: on a CPU numpy's, with which they are quicker, else 0-d tensors, so that none waits."""

    device: torch.device
    dtype: torch.dtype

    def scalar(self, number: Scalar) -> Scalar:
        """A number as formulas take it."""
        if apart(self.device):
            return self.tensor(number)
        return NUMPY[self.dtype](number.detach().item() if isinstance(number, Tensor) else number)

    def scalars(self, row: Tensor) -> Iterable[Scalar]:
        """The elements of a 1-d tensor as formulas take them."""
        return row.unbind() if apart(self.device) else row.numpy()

    def tensor(self, number: Scalar) -> Tensor:
        """A number, or the numbers of a tensor, as a tensor of this type on this device, without waiting for it."""
        if isinstance(number, Tensor):
            return number.detach().to(self.device, self.dtype)
        return torch.full((), float(number), dtype=self.dtype, device=self.device)

    def row(self, numbers: Sequence[Scalar]) -> Tensor:
        """The numbers as one 1-d tensor."""
        if apart(self.device):
            return torch.stack([self.tensor(number) for number in numbers])
        return torch.tensor([float(number) for number in numbers], dtype=self.dtype)

    def chosen(self, whether: Scalar, new: Scalar, old: Scalar) -> Scalar:
        """The new number or the old."""
        if isinstance(whether, Tensor):
            return torch.where(whether, self.tensor(new), self.tensor(old))  # no branch: it would wait for the device
        return self.scalar(new) if whether else old
