"""From gathered gradients to blocks: each parameter's gradients beside its averages, laid alike in memory."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gradsurgery.torch.blocks import Block, aligned
from gradsurgery.torch.gradients import Gradients
from gradsurgery.torch.layout import Layout, alike_in_type, layout
from gradsurgery.torch.parallel import Shards, local, shards
from gradsurgery.torch.state import State

Group = tuple[Shards | None, torch.device, torch.dtype]
"""What blocks have in common that are passed over together: where other shards are, the device and the type."""


class Seat(NamedTuple):
    """What a parameter was like in the step before: if its gradients lie as they did, it is like that still."""

    layout: Layout
    """That of its gradients."""
    averages: Sequence[Tensor]
    """Its averages, laid alike."""
    group: Group
    """Whom it is passed over with."""


class Seats:
    """Finds the blocks of a step; what most parameters are like was found in the step before.

    Args:
        parameters: the parameters.
        state: where their averages are.
    """

    def __init__(self, parameters: list[Tensor], state: State) -> None:
        self._parameters, self._state = parameters, state
        self.clear()

    def clear(self) -> None:
        """Forget what parameters were like: their averages are others now."""
        self._seats: list[Seat | None] = [None] * len(self._parameters)

    def blocks(self, gathered: Sequence[Gradients]) -> tuple[dict[Group, list[Block]], Gradients]:
        """The blocks of all parameters that have any, by groups, and for each parameter what becomes its direction.

        Args:
            gathered: the gradient of each loss.
        """
        groups: dict[Group, list[Block]] = {}
        directions: Gradients = []
        for index, gradients in enumerate(zip(*gathered, strict=True)):
            seat = self._seats[index]
            if seat is not None and _lie(gradients, seat.layout):
                groups.setdefault(seat.group, []).append(Block(gradients, seat.averages))
                directions.append(gradients[-1])  # the passes write it there
            else:
                directions.append(self._seated(index, gradients, groups))
        return groups, directions

    def _seated(self, index: int, found: tuple[Tensor | None, ...], groups: dict[Group, list[Block]]) -> Tensor | None:
        """Add the block of one parameter, whatever its gradients are like, and keep its seat for the next step."""
        parameter = self._parameters[index]
        reached = [gradient for gradient in found if gradient is not None]
        if not reached and not self._state.has_averages(index):
            return None
        like = reached[0] if reached else torch.zeros_like(parameter)
        gradients = alike_in_type([torch.zeros_like(like) if one is None else one for one in found])
        averages = self._state.averages(index, like=gradients[-1])
        block = aligned([local(one) for one in gradients], [local(one) for one in averages])
        group = shards(parameter), block.device, block.dtype
        groups.setdefault(group, []).append(block)
        usual = layout(gradients[-1])
        self._seats[index] = Seat(usual, block.averages, group) if _lie(found, usual) else None
        return gradients[-1] if reached else None


def _lie(gradients: Sequence[Tensor | None], layout: Layout) -> bool:
    """Whether all lie in memory like this, and are plain tensors."""
    shape, strides, dtype, device = layout
    for one in gradients:
        if (
            type(one) is not Tensor
            or one.stride() != strides
            or one.shape != shape
            or one.dtype is not dtype
            or one.device != device
        ):
            return False
    return True
