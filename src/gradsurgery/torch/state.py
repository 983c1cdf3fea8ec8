"""The state that a method carries from step to step: averages and a few scalars."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from gradsurgery.method import Method
from gradsurgery.scalar import Scalar
from gradsurgery.torch.dtensor import is_dtensor, local
from gradsurgery.torch.scalars import Scalars, compute_dtype

KEYS = ("method", "shapes", "steps", "mass", "memory", "averages")


class State:
    """The state of a method for a list of parameters.

    Args:
        method: the method.
        parameters: all parameters, frozen ones too; averages are numbered by their positions in this list.
        scalars: makes the scalars.
    """

    def __init__(self, method: Method, parameters: list[Tensor], scalars: Scalars) -> None:
        self._method, self.parameters, self._scalars = method, parameters, scalars
        self._averages: list[dict[int, Tensor]] = [{} for _ in range(method.averages)]
        self.steps = 0
        """Steps so far, including unsound ones."""
        self.mass: Scalar = scalars.formula_scalar(0.0)
        """The moving average of the number 1, which corrects averages for their start at zero."""
        self.memory: tuple[Scalar, ...] = (self.mass,) * len(method.memory)
        """The method's own scalars."""

    def check_method(self, method: Method) -> None:
        """Raise unless this state fits the method."""
        before = self._method
        if (type(method), method.averages, method.memory) != (type(before), before.averages, before.memory):
            raise ValueError(
                f"this Surgery holds the state of {before!r}; to train with {method!r}, make a new Surgery"
            )

    def has_averages(self, index: int) -> bool:
        """Whether the parameter at this position has averages."""
        return any(index in level for level in self._averages)

    def averages(self, index: int, like: Tensor) -> list[Tensor]:
        """The averages of one parameter, with the memory layout of its gradient; to be updated in place."""
        for level in self._averages:
            level[index] = _match_layout(level.get(index), like)
        return [level[index] for level in self._averages]

    def advance(self, mass: Scalar, memory: tuple[Scalar, ...]) -> None:
        """End a step; the averages have been updated in place."""
        self.steps += 1
        self.mass = mass
        # rounded as in a snapshot, so that a resumed run is equal bit for bit
        self.memory = tuple(map(self._scalars.formula_scalar, memory))

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state, in plain containers.

        Frozen parameters have no averages. A trainable one that has none yet gets zeros, because
        ``torch.distributed.checkpoint`` loads into the tensors that it finds.
        """
        return {
            "method": self._method.name,
            "shapes": [list(parameter.shape) for parameter in self.parameters],
            "steps": self.steps,
            "mass": self._scalars.tensor(self.mass).clone(),
            "memory": [self._scalars.tensor(value).clone() for value in self.memory],
            "averages": [
                {
                    index: level[index].clone()
                    if index in level
                    else torch.zeros_like(parameter, dtype=compute_dtype(parameter.dtype), requires_grad=False)
                    for index, parameter in enumerate(self.parameters)
                    if index in level or parameter.requires_grad
                }
                for level in self._averages
            ],
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Replace the state by copies of a saved one, after checking all of it."""
        self.check(saved)
        self._averages = [
            {
                index: average.to(self.parameters[index].device, compute_dtype(self.parameters[index].dtype), copy=True)
                for index, average in level.items()
            }
            for level in saved["averages"]
        ]
        self.steps = int(saved["steps"])
        self.mass = self._scalars.formula_scalar(_copy(saved["mass"]))
        self.memory = tuple(self._scalars.formula_scalar(_copy(value)) for value in saved["memory"])

    def check(self, saved: Any) -> None:
        """Raise unless this is a state of this method for these parameters."""
        if not isinstance(saved, Mapping) or set(saved) != set(KEYS):
            got = ", ".join(map(str, saved)) or "none" if isinstance(saved, Mapping) else repr(saved)
            raise ValueError(f"the state of a Surgery has the keys {', '.join(KEYS)}, but got {got}")
        method = self._method
        if saved["method"] != method.name:
            raise ValueError(
                f"the state was saved with the method {saved['method']}, but this Surgery's method is {method.name}"
            )
        steps = saved["steps"]
        if not isinstance(steps, Integral) or isinstance(steps, bool) or steps < 0:
            raise ValueError(f"steps is an integer of at least 0, but the state has {steps!r}")
        if not 0 <= _number("mass", saved["mass"]) <= 1:
            raise ValueError(f"mass is a number from 0 to 1, but the state has {float(saved['mass'])}")
        for name, count in (("memory", len(method.memory)), ("averages", method.averages)):
            if not isinstance(saved[name], list | tuple) or len(saved[name]) != count:
                raise ValueError(
                    f"{name} is a list of length {count} for {method!r}, but the state has {_describe(saved[name])}"
                )
        for value in saved["memory"]:
            _number("memory", value)
        self._check_shapes(saved["shapes"])
        for level in saved["averages"]:
            if not isinstance(level, Mapping):
                raise ValueError(
                    f"averages are keyed by the position of the parameter, but the state has {_describe(level)}"
                )
            for index, average in level.items():
                self._check_average(index, average)

    def _check_shapes(self, shapes: Any) -> None:
        count = len(self.parameters)
        if not isinstance(shapes, list | tuple) or len(shapes) != count:
            saved_count = len(shapes) if isinstance(shapes, list | tuple) else _describe(shapes)
            raise ValueError(f"the state is for {saved_count} parameters, but this Surgery has {count}")
        for index, (shape, parameter) in enumerate(zip(shapes, self.parameters, strict=True)):
            if list(shape) != list(parameter.shape):
                raise ValueError(
                    f"parameter {index} has shape {tuple(shape)} in the state, but {tuple(parameter.shape)} here"
                )

    def _check_average(self, index: Any, average: Any) -> None:
        if index not in range(len(self.parameters)):
            raise ValueError(
                f"the state has an average of parameter {index}, but the last parameter is {len(self.parameters) - 1}"
            )
        parameter = self.parameters[index]
        if not isinstance(average, Tensor) or not average.is_floating_point():
            kind = average.dtype if isinstance(average, Tensor) else _describe(average)
            raise ValueError(f"an average is a tensor of real numbers, but that of parameter {index} is {kind}")
        if average.shape != parameter.shape:
            raise ValueError(
                f"parameter {index} has shape {tuple(average.shape)} in the state, but {tuple(parameter.shape)} here"
            )
        if is_dtensor(parameter) != is_dtensor(average):
            kinds = ["a plain tensor", "a DTensor"]
            raise ValueError(
                f"the average of parameter {index} is {kinds[is_dtensor(average)]} in the state, but the parameter is "
                f"{kinds[is_dtensor(parameter)]}: save and load with torch.distributed.checkpoint"
            )


def _match_layout(average: Tensor | None, like: Tensor) -> Tensor:
    """The average with a gradient's strides, type and device: itself if it has them, else a copy; zeros if None."""
    dtype = compute_dtype(like.dtype)
    if average is None:
        return torch.zeros_like(like, dtype=dtype)
    shard, gradient = local(average), local(like)
    if shard.shape != gradient.shape:
        raise ValueError(
            f"got a gradient of shape {tuple(gradient.shape)} for a parameter whose average has shape "
            f"{tuple(shard.shape)}: after resizing a parameter, make a new Surgery"
        )
    if shard.stride() == gradient.stride() and shard.dtype == dtype and shard.device == gradient.device:
        return average
    return torch.zeros_like(like, dtype=dtype).copy_(average)


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _number(name: str, value: Any) -> float:
    """The value as a float; raises unless it is a finite number."""
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):
        raise ValueError(f"{name} holds numbers, but the state has {_describe(value)}") from None
    if not abs(number) < float("inf"):
        raise ValueError(f"{name} holds finite numbers, but the state has {number}")
    return number


def _describe(value: Any) -> str:
    """The value for an error message: its repr if short, else its type and length."""
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
