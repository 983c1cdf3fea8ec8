"""The forms in which users give losses, or gradients that they have computed themselves."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.amp.grad_scaler import OptState

from gradsurgery.torch.dtensor import is_dtensor

Loss: TypeAlias = Tensor | Callable[[], Tensor]

Gradients = list[Tensor | None]
"""The gradient of one loss, parameter by parameter; None where the loss does not reach."""


def evaluate(name: str, loss: Loss) -> Tensor:
    """The loss as a scalar tensor with a graph; a function is called."""
    if not isinstance(loss, Tensor):
        if not callable(loss):
            raise TypeError(
                f"the {name} loss must be a scalar tensor or a function that returns one; got {_describe(loss)}"
            )
        loss = loss()
    if not isinstance(loss, Tensor):
        raise TypeError(f"the function of the {name} loss must return a scalar tensor; got {_describe(loss)}")
    if loss.numel() != 1:
        raise ValueError(f"the {name} loss must be a scalar; got a tensor of shape {tuple(loss.shape)}")
    if not loss.requires_grad:
        raise ValueError(
            f"the {name} loss must have a graph; got one that depends on no trainable parameter, or was computed under "
            "no_grad"
        )
    return loss


def _describe(value: Any) -> str:
    """A number or None as it is; of anything else the type, because the outputs of a model would fill pages."""
    return repr(value) if value is None or isinstance(value, int | float) else f"a {type(value).__name__}"


def read_gradients(name: str, given: Any, parameters: Sequence[Tensor], labels: Sequence[str]) -> Gradients:
    """Gradients that the user has computed, one for each parameter.

    Args:
        name: of the loss, for messages.
        given: tensors or None in the order of the parameters, or a mapping from names to tensors.
        parameters: the parameters of the surgery.
        labels: the names of the parameters.
    """
    if isinstance(given, Mapping):
        unknown = [str(key) for key in given if key not in labels]
        if unknown:
            raise ValueError(
                f"the gradients of {name} must have the names of parameters of the surgery; got {', '.join(unknown)}"
            )
        if shared := sorted({str(key) for key in given if labels.count(key) > 1}):
            raise ValueError(
                f"the gradients of {name} must have names that one parameter has; got {', '.join(shared)}, which "
                "several have: give a list in the order of the parameters"
            )
        given = [given.get(label) for label in labels]
    if isinstance(given, Tensor) or not isinstance(given, Iterable):
        raise TypeError(
            f"the gradients of {name} must be a list of tensors, or a dictionary by name; got {type(given).__name__}"
        )
    gradients = list(given)
    if len(gradients) != len(parameters):
        raise ValueError(f"{name} must have {len(parameters)} gradients, one for each parameter; got {len(gradients)}")
    for parameter, label, gradient in zip(parameters, labels, gradients, strict=True):
        if gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(f"the gradient of {name} for {label} must be a tensor or None; got {gradient!r:.80}")
        if gradient is not None and not parameter.requires_grad:
            raise ValueError(
                f"the gradient of {name} for {label} must be None, as the parameter is frozen; got a tensor"
            )
        if gradient is not None and _kind(gradient) != (expected := _kind(parameter)):
            raise ValueError(f"the gradient of {name} for {label} must be {expected}; got {_kind(gradient)}")
        if gradient is not None and gradient is parameter.grad:
            raise ValueError(
                f"the gradient of {name} for {label} must be apart from .grad, to which apply() adds; got .grad "
                "itself: call optimizer.zero_grad() before gather(), which leaves your tensors as they are"
            )
    if all(gradient is None for gradient in gradients):
        raise ValueError(f"{name} must have at least one gradient; got none")
    return gradients


def _kind(tensor: Tensor) -> str:
    """What a gradient has in common with its parameter, in words."""
    kind = "a DTensor" if is_dtensor(tensor) else "a tensor"
    layout = "" if tensor.layout is torch.strided else f"{tensor.layout} "
    return f"{kind} of shape {tuple(tensor.shape)}, {layout}{tensor.dtype} on {tensor.device}"


def check_scaler(scaler: Any) -> None:
    """Raise if the direction cannot have the scaler's scale, or would not be unscaled in this step any more."""
    if getattr(scaler, "_scale", True) is None:  # made by the first call of scale; a disabled scaler has none
        raise RuntimeError(
            "apply(scaler=scaler) needs losses that the scaler has scaled; it has scaled none: call "
            "surgery.backward(scaler.scale(main_loss), scaler.scale(aux_loss))"
        )
    states = getattr(scaler, "_per_optimizer_states", {}).values()
    if any(state["stage"] is OptState.UNSCALED for state in states):
        raise RuntimeError("apply(scaler=scaler) must be called before scaler.unscale_(optimizer); got it afterwards")
