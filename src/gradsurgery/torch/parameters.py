"""The parameters that users pass to ``Surgery``."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

SUPPORTED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The types that a trainable parameter may have."""


def collect_parameters(params: Iterable[Any]) -> list[Tensor]:
    """Each parameter once, from tensors, ``(name, tensor)`` pairs, or groups as for an optimiser."""
    parameters = list({id(parameter): parameter for parameter in _flatten(params)}.values())
    if not parameters:
        raise ValueError("params holds at least one parameter, but it is empty")
    check_trainable(parameters)
    return parameters


def check_trainable(parameters: list[Tensor]) -> None:
    """Raise if all parameters are frozen."""
    if not any(parameter.requires_grad for parameter in parameters):
        raise ValueError(
            f"at least one parameter must be trainable, but requires_grad is False for all {len(parameters)}"
        )


def _flatten(params: Any) -> Iterable[Tensor]:
    if isinstance(params, Tensor):
        raise TypeError("params is an iterable of parameters such as model.parameters(), but got one tensor")
    if isinstance(params, Module):
        raise TypeError(
            f"params is an iterable of parameters, but got a {type(params).__name__}: did you mean model.parameters()?"
        )
    if isinstance(params, Optimizer):
        raise TypeError(
            f"params is an iterable of parameters, but got the optimiser {type(params).__name__}: "
            "did you mean model.parameters() or optimizer.param_groups?"
        )
    if not isinstance(params, Iterable):
        raise TypeError(f"params is an iterable of parameters such as model.parameters(), but got {params!r}")
    for item in params:
        if isinstance(item, dict):
            if "params" not in item:
                raise ValueError(
                    f"a group has its parameters under 'params', but got the keys {', '.join(map(str, item))}"
                )
            yield from _flatten([item["params"]] if isinstance(item["params"], Tensor) else item["params"])
        else:
            yield _checked(item[1] if isinstance(item, tuple) and len(item) == 2 else item)


def _checked(parameter: Any) -> Tensor:
    if not isinstance(parameter, Tensor):
        raise TypeError(f"params holds parameters, but got {parameter!r}")
    if not parameter.is_leaf:
        raise ValueError(
            f"a parameter is a leaf tensor, but got one computed from others, of shape {tuple(parameter.shape)}"
        )
    if parameter.requires_grad and parameter.dtype not in SUPPORTED:  # a frozen base may be quantised
        supported = ", ".join(str(dtype).removeprefix("torch.") for dtype in SUPPORTED)
        raise ValueError(f"parameters are of type {supported}, but got one of type {parameter.dtype}")
    return parameter
