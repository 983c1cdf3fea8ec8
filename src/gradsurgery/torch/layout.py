"""The vectors of the parameters that take part in a step, with equal strides, in blocks for the passes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gradsurgery.scalar import Scalar
from gradsurgery.torch.dtensor import Shards, local, shards_of
from gradsurgery.torch.parameters import check_dtype
from gradsurgery.torch.passes import Block
from gradsurgery.torch.passes.blocks import memory_order
from gradsurgery.torch.state import State

Group = tuple[Shards | None, torch.device, torch.dtype]
"""What blocks in one pass have in common: where their other shards are, the device, and the type of the gradients."""


@dataclass
class StepLayout:
    """The blocks of one step. Parameters that no loss reaches have none."""

    groups: dict[Group, list[Block]] = field(default_factory=dict)
    directions: list[Tensor | None] = field(default_factory=list)
    """For each parameter, the tensor that the direction is written to; None if it does not take part."""
    cohorts: dict[int, int] = field(default_factory=dict)
    """The cohort of each parameter that takes part, by position; cohorts share the mass of their averages."""
    masses: list[Scalar] = field(default_factory=list)
    """The mass of each cohort, before the step."""


class CachedLayout(NamedTuple):
    """The memory layout of one parameter's vectors in the previous step, which rarely changes."""

    shape: torch.Size
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    averages: Sequence[Tensor]
    group: Group

    def fits(self, gradients: Sequence[Tensor | None]) -> bool:
        """Whether these gradients are plain tensors in the same layout."""
        for gradient in gradients:
            if (
                type(gradient) is not Tensor
                or gradient.stride() != self.strides
                or gradient.shape != self.shape
                or gradient.dtype is not self.dtype
                or gradient.device != self.device
            ):
                return False
        return True


class Layout:
    """Makes the blocks of a step.

    Args:
        parameters: the parameters, a live list.
        positions: their positions among all parameters of the surgery, a live list.
        state: holds their averages.
    """

    def __init__(self, parameters: list[Tensor], positions: list[int], state: State) -> None:
        self._parameters, self._positions, self._state = parameters, positions, state
        self.forget()

    def forget(self) -> None:
        """Drop the cached layouts, after the averages were replaced."""
        self._cached: list[CachedLayout | None] = [None] * len(self._parameters)

    def lay_out(self, gathered: Sequence[Sequence[Tensor | None]]) -> StepLayout:
        """The blocks of a step.

        Args:
            gathered: the gradients of each loss, main first, for all parameters of the surgery.
        """
        layout, cohort_of_mass = StepLayout(), dict[object, int]()
        for index, position in enumerate(self._positions):
            gradients: list[Any] = [gradients[position] for gradients in gathered]
            cached = self._cached[index]
            if cached is not None and cached.fits(gradients):
                shards = gradients
            elif any(gradient is not None for gradient in gradients):
                gradients, cached = self._convert(index, gradients)
                shards = [local(gradient) for gradient in gradients]
            else:
                layout.directions.append(None)
                continue
            mass = self._state.mass(index)
            # a mass on a device has no value to compare without waiting, but parameters of one cohort share the tensor
            has_value = not isinstance(mass, Tensor) or mass.is_cpu
            cohort = cohort_of_mass.setdefault(float(mass) if has_value else id(mass), len(layout.masses))
            if cohort == len(layout.masses):
                layout.masses.append(mass)
            layout.cohorts[index] = cohort
            block = Block(shards, cached.averages, cohort, position)
            layout.groups.setdefault(cached.group, []).append(block)
            layout.directions.append(gradients[-1])
        return layout

    def _convert(self, index: int, gradients: Sequence[Tensor | None]) -> tuple[list[Tensor], CachedLayout]:
        """The gradients in one type and layout, zero where a loss does not reach; caches the layout if it fits."""
        like = next(gradient for gradient in gradients if gradient is not None)
        filled = _match_dtypes([torch.zeros_like(like) if gradient is None else gradient for gradient in gradients])
        last = filled[-1]
        check_dtype(last.dtype)  # a frozen parameter may be of any type, and be unfrozen later
        averages = [local(average) for average in self._state.averages(index, last)]
        converted = [_match_strides(gradient, last) for gradient in filled]
        group = shards_of(self._parameters[index]), last.device, last.dtype
        cached = CachedLayout(last.shape, last.stride(), last.dtype, last.device, averages, group)
        self._cached[index] = cached if cached.fits(gradients) else None
        return converted, cached


def make_dense(tensor: Tensor) -> Tensor:
    """The tensor if its elements are adjacent in memory, in any order of dimensions; else a contiguous copy."""
    shard = local(tensor)
    is_dense = shard.is_contiguous() or shard.permute(memory_order(shard)).is_contiguous()
    return tensor if is_dense else tensor.contiguous()


def _match_dtypes(gradients: list[Tensor]) -> list[Tensor]:
    """The gradients in the widest of their types; types differ only where a parameter's ``grad_dtype`` is None."""
    if all(gradient.dtype == gradients[0].dtype for gradient in gradients):
        return gradients
    widest = reduce(torch.promote_types, [gradient.dtype for gradient in gradients])
    return [gradient.to(widest) for gradient in gradients]


def _match_strides(gradient: Tensor, like: Tensor) -> Tensor:
    shard, target = local(gradient), local(like)
    return gradient if shard.stride() == target.stride() else torch.empty_like(like).copy_(gradient)
