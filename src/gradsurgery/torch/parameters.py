"""The parameters that users pass to ``Surgery``: a module, parameters, or groups of them."""

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
    names: dict[int, str]
    """The names of the parameters that have one, by id."""
    modules: list[Module]
    """The modules that were given for their parameters."""


def collect_groups(params: Any) -> list[ParameterGroup]:
    """The groups, each parameter once, from a module, tensors, ``(name, tensor)`` pairs, or groups of those.

    Tensors and groups without a method form one group; each group with a method stays separate.
    """
    if isinstance(params, Module):
        params = [{"params": params}]
    _check_iterable(params)
    shared, groups = ParameterGroup(None, [], {}, []), []
    for item in params:
        group = read_group(item if isinstance(item, dict) else {"params": [item]})
        if group.method is None:
            if not shared.parameters:
                groups.append(shared)
            shared.parameters.extend(group.parameters)
            shared.names.update(group.names)
            shared.modules.extend(group.modules)
        else:
            groups.append(group)
    groups = [group._replace(parameters=_unique(group.parameters)) for group in groups]
    parameters = [parameter for group in groups for parameter in group.parameters]
    if not parameters:
        raise ValueError("params must hold at least one parameter; got none")
    check_disjoint(parameters)
    if not any(parameter.requires_grad for parameter in parameters):
        raise ValueError(f"at least one parameter must be trainable; got {len(parameters)} without requires_grad")
    return groups


def read_group(group: Any) -> ParameterGroup:
    """Read a group from a dictionary."""
    if not isinstance(group, dict) or "params" not in group:
        got = f"the keys {', '.join(map(str, group))}" if isinstance(group, dict) else repr(group)
        raise ValueError(f"a group must have its parameters under 'params'; got {got}")
    unknown = [str(key) for key in group if key not in ("params", "method")]
    if unknown:
        raise ValueError(
            f"the keys of a group must be params and method; got {', '.join(unknown)} too: hyperparameters belong in "
            "the method, such as gradsurgery.bloop(lam=0.1), and learning rates in the optimiser"
        )
    method, params = group.get("method"), group["params"]
    if method is not None:
        check_method(method)
    modules = [params] if isinstance(params, Module) else []
    if isinstance(params, Module):
        params = params.named_parameters()
    elif isinstance(params, Tensor):
        params = [params]
    _check_iterable(params)
    pairs = [_read_parameter(item) for item in params]
    names = {id(parameter): name for name, parameter in pairs if name is not None}
    return ParameterGroup(method, _unique([parameter for _, parameter in pairs]), names, modules)


def check_method(method: Any) -> None:
    """Raise unless this is a method."""
    if not isinstance(method, Method):
        raise TypeError(f"the method must be one such as gradsurgery.bloop(lam=0.1); got {method!r}")


def check_dtype(dtype: torch.dtype) -> None:
    """Raise unless parameters of this type can be trained."""
    if dtype not in SUPPORTED:
        supported = ", ".join(str(dtype).removeprefix("torch.") for dtype in SUPPORTED)
        raise ValueError(f"parameters must be of type {supported}; got one of type {dtype}")


def check_disjoint(parameters: list[Tensor]) -> None:
    """Raise if a parameter is in two groups."""
    count = len(parameters) - len(_unique(parameters))
    if count:
        raise ValueError(f"a parameter must be in one group only; {count} are in two")


def _unique(parameters: list[Tensor]) -> list[Tensor]:
    return list({id(parameter): parameter for parameter in parameters}.values())


def _check_iterable(params: Any) -> None:
    if isinstance(params, Optimizer):
        raise TypeError(f"params must be a module or parameters; got the optimiser {type(params).__name__}")
    if isinstance(params, Tensor):
        raise TypeError("params must be a module or an iterable of parameters; got one tensor")
    if not isinstance(params, Iterable):
        raise TypeError(f"params must be a module or an iterable of parameters; got {params!r}")


def _read_parameter(item: Any) -> tuple[str | None, Tensor]:
    """Read a parameter from a tensor or a ``(name, tensor)`` pair."""
    name, parameter = item if isinstance(item, tuple) and len(item) == 2 else (None, item)
    if not isinstance(parameter, Tensor):
        raise TypeError(f"params must hold parameters; got {parameter!r}")
    if not parameter.is_leaf:
        raise ValueError(
            f"a parameter must be a leaf tensor; got one computed from others, of shape {tuple(parameter.shape)}"
        )
    if parameter.requires_grad:  # a frozen base may be quantised
        check_dtype(parameter.dtype)
    return name, parameter
