"""Parameters as users hand them in, and how their gradients and averages lie in memory."""

from collections.abc import Iterable
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from gradsurgery.torch.parallel import local
from gradsurgery.torch.scalars import wide


def parameters(params: Iterable[Any]) -> list[Tensor]:
    """The parameters once each: from tensors, ``(name, tensor)`` pairs, or groups as for an optimiser."""
    if isinstance(params, Tensor):
        raise TypeError("params is an iterable of parameters such as model.parameters(), but got one tensor")
    found: dict[int, Tensor] = {}
    for item in params:
        if isinstance(item, dict):
            group = item["params"]
            found |= {id(one): one for one in parameters([group] if isinstance(group, Tensor) else group)}
            continue
        parameter = item[1] if isinstance(item, tuple) else item
        if not isinstance(parameter, Tensor):
            raise TypeError(f"params holds parameters, but got {parameter!r}")
        if not parameter.is_leaf or not parameter.is_floating_point():
            raise ValueError(
                f"a parameter is a leaf tensor of real numbers, but got one of type {parameter.dtype}"
                + ", computed from others" * (not parameter.is_leaf)
            )
        found[id(parameter)] = parameter
    if not found:
        raise ValueError("params holds at least one parameter, but it is empty")
    return list(found.values())


Layout = tuple[torch.Size, tuple[int, ...], torch.dtype, torch.device]
"""Shape, strides, type and device: how a tensor lies in memory."""


def layout(tensor: Tensor) -> Layout:
    """How a tensor lies in memory."""
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device


def alike_in_type(gradients: list[Tensor]) -> list[Tensor]:
    """The gradients in the widest of their types: they may differ where ``grad_dtype`` of a parameter is None."""
    first = gradients[0].dtype
    if all(gradient.dtype == first for gradient in gradients):
        return gradients
    widest = reduce(torch.promote_types, [gradient.dtype for gradient in gradients])
    return [gradient.to(widest) for gradient in gradients]


def laid_like(like: Tensor, average: Tensor | None) -> Tensor:
    """An average, zero if there is none yet, that lies in memory as a gradient: the passes write to it in place."""
    if average is None:
        return torch.zeros_like(like, dtype=wide(like.dtype))
    here, there = local(average), local(like)
    if here.shape != there.shape:
        raise ValueError(
            f"a gradient of shape {tuple(there.shape)} has come for a parameter whose average has {tuple(here.shape)}: "
            "if the parameter was resized, make a new Surgery"
        )
    if here.stride() == there.stride() and here.dtype == wide(there.dtype) and here.device == there.device:
        return average
    return torch.zeros_like(like, dtype=wide(like.dtype)).copy_(average)


def dense(tensor: Tensor) -> Tensor:
    """The tensor itself if its elements lie side by side in memory, else a copy whose elements do."""
    here = local(tensor)
    return tensor if here.is_contiguous() or here.permute(by_stride(here)).is_contiguous() else tensor.contiguous()


def by_stride(tensor: Tensor) -> list[int]:
    """The dimensions from the longest stride to the shortest: in this order the elements lie side by side."""
    return sorted(range(tensor.dim()), key=tensor.stride, reverse=True)
