"""The parameters that users pass to ``Surgery``."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module
from torch.optim import Optimizer

from gradsurgery.method import Method

SUPPORTED = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
"""The types that a trainable parameter may have."""


class ParameterGroup(NamedTuple):
    """Parameters that share a method."""

    method: Method | None
    """None for the default method of the ``Surgery``."""
    parameters: list[Tensor]


def collect_groups(params: Iterable[Any]) -> list[ParameterGroup]:
    """The groups, each parameter once, from tensors, ``(name, tensor)`` pairs, or groups as for an optimiser.

    Tensors and groups without a method form one group; each group with a method stays separate.
    """
    _check_iterable(params)
    shared, groups = ParameterGroup(None, []), []
    for item in params:
        group = read_group(item) if isinstance(item, dict) else ParameterGroup(None, [_read_parameter(item)])
        if group.method is None:
            if not shared.parameters:
                groups.append(shared)
            shared.parameters.extend(group.parameters)
        else:
            groups.append(group)
    groups = [ParameterGroup(group.method, _unique(group.parameters)) for group in groups]
    parameters = [parameter for group in groups for parameter in group.parameters]
    if not parameters:
        raise ValueError("params holds at least one parameter, but it is empty")
    check_disjoint(parameters)
    check_trainable(parameters)
    return groups


def read_group(group: Any) -> ParameterGroup:
    """Read a group from a dictionary."""
    if not isinstance(group, dict) or "params" not in group:
        got = f"the keys {', '.join(map(str, group))}" if isinstance(group, dict) else repr(group)
        raise ValueError(f"a group has its parameters under 'params', but got {got}")
    unknown = [str(key) for key in group if key not in ("params", "method")]
    if unknown:
        raise ValueError(
            f"a group has the keys params and method, but got {', '.join(unknown)} too: hyperparameters belong in the "
            "method, such as gradsurgery.bloop(lam=0.1), and learning rates in the optimiser"
        )
    method = group.get("method")
    if method is not None:
        check_method(method)
    params = group["params"]
    if isinstance(params, Tensor):
        return ParameterGroup(method, [_read_parameter(params)])
    _check_iterable(params)
    return ParameterGroup(method, _unique([_read_parameter(item) for item in params]))


def check_method(method: Any) -> None:
    """Raise unless this is a method."""
    if not isinstance(method, Method):
        raise TypeError(f"Surgery takes a method such as gradsurgery.bloop(lam=0.1), but got {method!r}")


def check_disjoint(parameters: list[Tensor]) -> None:
    """Raise if a parameter is in two groups."""
    count = len(parameters) - len(_unique(parameters))
    if count:
        raise ValueError(f"a parameter is trained by one method, but {count} are in two groups")


def _unique(parameters: list[Tensor]) -> list[Tensor]:
    return list({id(parameter): parameter for parameter in parameters}.values())


def check_trainable(parameters: list[Tensor]) -> None:
    """Raise if all parameters are frozen."""
    if not any(parameter.requires_grad for parameter in parameters):
        raise ValueError(
            f"at least one parameter must be trainable, but requires_grad is False for all {len(parameters)}"
        )


def _check_iterable(params: Any) -> None:
    if isinstance(params, Tensor):
        raise TypeError("params is an iterable of parameters such as model.parameters(), but got one tensor")
    if isinstance(params, Module):
        raise TypeError(
            f"params is an iterable of parameters, but got a {type(params).__name__}: did you mean model.parameters()?"
        )
    if isinstance(params, Optimizer):
        raise TypeError(
            f"params is an iterable of parameters, but got the optimiser {type(params).__name__}: "
            "did you mean model.parameters()?"
        )
    if not isinstance(params, Iterable):
        raise TypeError(f"params is an iterable of parameters such as model.parameters(), but got {params!r}")


def _read_parameter(item: Any) -> Tensor:
    """Read a parameter from a tensor or a ``(name, tensor)`` pair."""
    parameter = item[1] if isinstance(item, tuple) and len(item) == 2 else item
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
