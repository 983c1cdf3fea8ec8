"""The gradients of one step: of each loss apart, gathered from one or more backward passes."""

import torch
from torch import Tensor

from gradsurgery.torch.layout import dense, unshared
from gradsurgery.torch.losses import Loss, backward, value
from gradsurgery.torch.parallel import Wrapping, added, placed_like, whole

Gradients = list[Tensor | None]
"""The gradient of one loss, parameter by parameter; None where the loss does not reach."""


class Gathering:
    """Gathers gradients; in between, ``.grad`` of its parameters is None."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self._parameters = parameters
        self._by_id = {id(parameter): parameter for parameter in parameters}
        self.gradients: list[Gradients] = []

    def clear(self) -> None:
        """Forget what was gathered."""
        self.gradients = []

    def add(self, names: tuple[str, ...], losses: tuple[Loss, ...], wrapping: Wrapping) -> tuple[Tensor, ...]:
        """Add the gradients of these losses, one after the other; returns their values."""
        if self.gradients and len(self.gradients) != len(losses):
            raise ValueError(f"backward was called with {len(self.gradients)} losses before, but got {len(losses)}")
        gathered = self.gradients or [[None] * len(self._parameters) for _ in losses]
        self.clear()  # if a loss fails, no half-gathered gradients stay
        values = []
        for index, (name, loss) in enumerate(zip(names, losses, strict=True)):
            later = [other for other in losses[index + 1 :] if isinstance(other, Tensor)]
            now, gathered[index] = self._added(name, loss, gathered[index], later, wrapping)
            values.append(now)
        self.gradients = gathered
        return tuple(values)

    def _added(
        self, name: str, loss: Loss, before: Gradients, later: list[Tensor], wrapping: Wrapping
    ) -> tuple[Tensor, Gradients]:
        try:
            for parameter, gradient in zip(self._parameters, before, strict=True):
                parameter.grad = None if wrapping.sharded else gradient
            now = value(loss, name)
            backward(now, self._by_id, later, wrapping)
            gradients = unshared([_dense(one.grad, one, name) for one in self._parameters])
        except RuntimeError as error:
            wrapping.advise(error)
            raise
        finally:
            for parameter in self._parameters:
                parameter.grad = None
        wrapping.check(name)
        if all(gradient is None for gradient in gradients):
            raise RuntimeError(f"the {name} loss reaches none of the parameters")
        if wrapping.sharded:
            gradients = [added(*pair) for pair in zip(before, gradients, strict=True)]
        return whole(now.detach()), gradients


def _dense(gradient: Tensor | None, parameter: Tensor, name: str) -> Tensor | None:
    """A gradient that is dense in memory, placed as its parameter is."""
    if gradient is None:
        return None
    if gradient.layout is not torch.strided:
        raise TypeError(
            f"the {name} loss gives a sparse gradient ({gradient.layout}), but surgery needs dense ones: make the "
            "embedding with sparse=False"
        )
    if type(gradient) is Tensor and gradient.is_contiguous():
        return gradient
    return dense(placed_like(parameter, gradient))
