"""Methods that run as they are inside ``torch.compile(step)``: traced, they compile slowly and fail at new shapes."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


def untraced(method: Callable[P, T]) -> Callable[P, T]:
    """The method, at which a compiled step breaks its graph."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if torch.compiler.is_dynamo_compiling():  # only here: disable imports the compiler
            return torch.compiler.disable(method)(*args, **kwargs)  # type: ignore[no-untyped-call]
        return method(*args, **kwargs)

    return call
