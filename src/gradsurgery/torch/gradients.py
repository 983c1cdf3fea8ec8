"""The gradients of one step: of each loss apart, gathered from one or more backward passes."""

import torch
from torch import Tensor

from gradsurgery.torch.layout import dense
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
            gradients = self._owned(name)
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

    def _owned(self, name: str) -> Gradients:
        """The gradients, dense, placed as their parameters are, and each with its memory to itself: it is written to.

        Autograd hands out parts of larger tensors, and the same memory to several parameters; DDP hands out parts of
        buckets that it writes to again. So some are copied. All in one loop: in a small model each look counts.
        """
        found: Gradients = []
        memories: set[int] = set()
        for parameter in self._parameters:
            gradient = parameter.grad
            if gradient is not None:
                if gradient.layout is not torch.strided:
                    raise TypeError(
                        f"the {name} loss gives a sparse gradient ({gradient.layout}), but surgery needs dense ones: "
                        "make the embedding with sparse=False"
                    )
                if type(gradient) is not Tensor or not gradient.is_contiguous():
                    gradient = dense(placed_like(parameter, gradient))
                if type(gradient) is Tensor:
                    memory = gradient.untyped_storage()
                    address = memory.data_ptr()
                    # by size alone, a parameter that fills a bucket of DDP would pass for its owner
                    if memory.nbytes() != gradient.nbytes or address in memories or gradient._is_view():
                        gradient = gradient.clone()
                    memories.add(address)
            found.append(gradient)
        return found
