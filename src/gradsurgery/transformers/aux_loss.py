"""``AuxLossFunction``: ``compute_aux_loss`` as the user wrote it, and what its signature asks for."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn


class AuxLossFunction:
    """Calls ``compute_aux_loss`` with the arguments that it has parameters for.

    Args:
        function: takes ``model`` and ``inputs``, and by name ``outputs`` or ``num_items_in_batch`` or both.
    """

    def __init__(self, function: Callable[..., Tensor]) -> None:
        if not callable(function):
            raise TypeError(f"compute_aux_loss must be a function of model and inputs; got {function!r}")
        signature = inspect.signature(function)
        self._function = function
        self.takes_outputs = "outputs" in signature.parameters
        self.takes_num_items = "num_items_in_batch" in signature.parameters
        try:
            signature.bind(None, None, **self._options(None, None))
        except TypeError as error:
            raise TypeError(
                "compute_aux_loss takes (model, inputs), and if it needs them outputs and num_items_in_batch, but its "
                f"signature is {signature}"
            ) from error

    def __call__(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        outputs: Any = None,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Tensor:
        """The auxiliary loss of a batch."""
        loss = self._function(model, inputs, **self._options(outputs, num_items_in_batch))
        if not isinstance(loss, Tensor):
            raise TypeError(f"compute_aux_loss must return a scalar tensor; got a {type(loss).__name__}")
        return loss

    def _options(self, outputs: Any, num_items_in_batch: Tensor | int | None) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self.takes_outputs:
            options["outputs"] = outputs
        if self.takes_num_items:
            options["num_items_in_batch"] = num_items_in_batch
        return options
