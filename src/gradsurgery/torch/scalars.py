"""The scalars of a step: their type, and how to compute with them without waiting for a device.

On the CPU, formulas run on numpy scalars, which are quick, carry their type, and do not raise on division by zero. On
every other device they run on 0-d tensors, because reading a value would block until the device has caught up.
"""

import math
from array import array
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from gradsurgery.scalar import Scalar

Pairs = tuple[tuple[int, int], ...]
"""Inner products, by the positions of their two factors among the vectors of a block."""


def is_async(tensor: Tensor) -> bool:
    """True if reading a value of the tensor blocks on its device (anything but the CPU)."""
    return not tensor.is_cpu


@cache
def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type to compute in: float32 or wider."""
    return torch.promote_types(dtype, torch.float32)


def to_compute_dtype(vectors: Sequence[Tensor]) -> Sequence[Tensor]:
    """The vectors, gradients first, in the type to compute in; no copy if they have it already."""
    dtype = compute_dtype(vectors[0].dtype)
    return vectors if vectors[0].dtype == dtype else [vector.to(dtype) for vector in vectors]


class Scalars:
    """Makes the scalars that formulas run on."""

    def __init__(self) -> None:
        self._followed: list[tuple[torch.device, torch.dtype]] = []
        self._set(torch.device("cpu"), {torch.float32})

    def follow(self, gradients: Iterable[tuple[torch.device, torch.dtype]]) -> None:
        """Compute where the gradients of this step are, and in their types: a model may be moved or converted.

        Args:
            gradients: the devices and types of the gradients. Formulas run on the first device.
        """
        followed = list(gradients)
        if followed and followed != self._followed:
            self._followed = followed
            self._set(followed[0][0], {compute_dtype(dtype) for _, dtype in followed})

    def _set(self, device: torch.device, compute_dtypes: set[torch.dtype]) -> None:
        self.device = device
        self.is_async = is_async(torch.empty(0, device=device))
        """Whether reading a scalar blocks on the device."""
        self.dtype = torch.float64 if torch.float64 in compute_dtypes else torch.float32
        """The widest type that is computed in."""
        self._numpy_type = np.float64 if self.dtype == torch.float64 else np.float32
        self._narrowest = torch.float32 if torch.float32 in compute_dtypes else torch.float64
        self._narrowest_code = "f" if self._narrowest == torch.float32 else "d"

    def formula_scalar(self, value: Scalar) -> Scalar:
        """A scalar for formulas: of numpy on the CPU, else a 0-d tensor."""
        if self.is_async:
            return self.tensor(value)
        return self._numpy_type(value.item() if isinstance(value, Tensor) else value)

    def pass_scalar(self, value: Scalar) -> Scalar:
        """A scalar for the passes over memory: a Python float on the CPU, else a 0-d tensor."""
        return self.tensor(value) if self.is_async else float(value)

    def tensor(self, value: Scalar) -> Tensor:
        """A 0-d tensor on the device, made without waiting for it."""
        if isinstance(value, Tensor):
            return value.detach().to(self.device, self.dtype)
        return torch.full((), float(value), dtype=self.dtype, device=self.device)

    def row(self, values: Sequence[Scalar]) -> Tensor:
        """The scalars as a 1-d tensor on the device."""
        return torch.stack([self.tensor(value) for value in values])

    def snapshot(self, value: Tensor) -> Scalar:
        """The present value of a tensor that may be changed in place later."""
        return value.detach().clone() if self.is_async else value.item()

    def select(self, condition: Scalar, new: Scalar, old: Scalar) -> Scalar:
        """``new`` where the condition holds, else ``old``."""
        if isinstance(condition, Tensor):
            return torch.where(condition, self.tensor(new), self.tensor(old))  # a branch would wait for the device
        return new if condition else old

    def all_finite(self, values: Sequence[Scalar]) -> Scalar:
        """Whether all are finite when rounded to the narrowest type that is computed in."""
        if self.is_async:
            return self.row(values).to(self._narrowest).isfinite().all()
        return all(map(math.isfinite, array(self._narrowest_code, values)))
