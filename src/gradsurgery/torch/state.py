"""The state that a method carries from step to step: averages, each with its mass, and a few scalars."""

from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradsurgery.method import Method
from gradsurgery.scalar import Scalar
from gradsurgery.torch.dtensor import is_dtensor, local
from gradsurgery.torch.scalars import Scalars, compute_dtype

KEYS = ("method", "names", "shapes", "steps", "mass", "memory", "averages")


class State:
    """The state of a method for a list of parameters.

    Args:
        method: the method.
        parameters: all parameters, frozen ones too, a live list; averages are numbered by their positions in it.
        names: their names, a live list.
        scalars: makes the scalars.
        average_dtype: the type of the averages; None for that of the gradients, but at least float32.
    """

    def __init__(
        self,
        method: Method,
        parameters: list[Tensor],
        names: list[str],
        scalars: Scalars,
        average_dtype: torch.dtype | None,
    ) -> None:
        self._method, self.parameters, self._names, self._scalars = method, parameters, names, scalars
        self._average_dtype = average_dtype
        self._averages: list[dict[int, Tensor]] = [{} for _ in range(method.averages)]
        self._masses: dict[int, Scalar] = {}
        self.steps = 0
        """Steps so far, including unsound ones."""
        self.memory: tuple[Scalar, ...] = (0.0,) * len(method.memory)
        """The method's own scalars."""

    def check_method(self, method: Method) -> None:
        """Raise unless this state fits the method."""
        before = self._method
        if (type(method), method.averages, method.memory) != (type(before), before.averages, before.memory):
            raise ValueError(
                f"this Surgery holds the state of {before!r}; to train with {method!r}, make a new Surgery"
            )

    def mass(self, index: int) -> Scalar:
        """The moving average of the number 1 over the steps that this parameter took part in.

        It corrects the averages for their start at zero. Parameters with the same history share one object.
        """
        return self._masses.get(index, 0.0)

    def averaged(self) -> list[Tensor]:
        """The parameters that have averages."""
        return [self.parameters[index] for index in self._masses]

    def averages(self, index: int, like: Tensor) -> list[Tensor]:
        """The averages of one parameter, with the memory layout of its gradient; to be updated in place."""
        for level in self._averages:
            level[index] = self._match_layout(level.get(index), like)
        return [level[index] for level in self._averages]

    def advance(self, masses: Mapping[int, Scalar], memory: tuple[Scalar, ...]) -> None:
        """End a step; the averages have been updated in place.

        Args:
            masses: the new masses of the parameters that took part.
            memory: the method's own scalars.
        """
        self.steps += 1
        if self._averages:
            self._masses |= masses
        # rounded as in a snapshot, so that a resumed run is equal bit for bit
        self.memory = tuple(map(self._scalars.formula_scalar, memory))

    def snapshot(self) -> dict[str, Any]:
        """A copy of the state, in plain containers.

        Frozen parameters have no averages. A trainable one that has none yet gets zeros, because
        ``torch.distributed.checkpoint`` loads into the tensors that it finds.
        """
        stored = [i for i, parameter in enumerate(self.parameters) if i in self._masses or parameter.requires_grad]
        tensor = self._tensor
        return {
            "method": self._method.name,
            "names": list(self._names),
            "shapes": [list(parameter.shape) for parameter in self.parameters],
            "steps": self.steps,
            "mass": {index: tensor(self.mass(index)) for index in stored} if self._averages else {},
            "memory": [tensor(value) for value in self.memory],
            "averages": [
                {index: level[index].clone() if index in level else self._zeros(index) for index in stored}
                for level in self._averages
            ],
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Replace the state by copies of a saved one, after checking all of it."""
        self.check(saved)
        self._averages = [
            {
                index: average.to(self.parameters[index].device, self._dtype(self.parameters[index]), copy=True)
                for index, average in level.items()
            }
            for level in saved["averages"]
        ]
        distinct: dict[float, Scalar] = {}
        self._masses = {index: distinct.setdefault(float(mass), _copy(mass)) for index, mass in saved["mass"].items()}
        self.steps = int(saved["steps"])
        self.memory = tuple(map(_copy, saved["memory"]))

    def check(self, saved: Any) -> None:
        """Raise unless this is a state of this method for these parameters."""
        if not isinstance(saved, Mapping) or set(saved) != set(KEYS):
            got = ", ".join(map(str, saved)) or "none" if isinstance(saved, Mapping) else repr(saved)
            raise ValueError(f"the state of a Surgery must have the keys {', '.join(KEYS)}; got {got}")
        method = self._method
        if saved["method"] != method.name:
            raise ValueError(f"the state must be one of the method {method.name}; got one of {saved['method']}")
        steps = saved["steps"]
        if not isinstance(steps, Integral) or isinstance(steps, bool) or steps < 0:
            raise ValueError(f"steps must be an integer of at least 0; got {steps!r}")
        for name, count in (("memory", len(method.memory)), ("averages", method.averages)):
            if not isinstance(saved[name], list | tuple) or len(saved[name]) != count:
                raise ValueError(
                    f"{name} must be a list of length {count} for {method!r}; got {_describe(saved[name])}"
                )
        for value in saved["memory"]:
            _number("memory", value)
        self._check_shapes(saved["shapes"])
        if saved["names"] != self._names and sorted(saved["names"]) == sorted(self._names):
            raise ValueError(
                "the state must be for these parameters in their order; got one for the same names in another order: "
                f"{', '.join(saved['names'])}"
            )
        self._check_by_position("mass", saved["mass"], self._check_mass)
        for level in saved["averages"]:
            self._check_by_position("averages", level, self._check_average)
            if level.keys() != saved["mass"].keys():
                raise ValueError("each average must have a mass; got averages and masses of different parameters")

    def _check_shapes(self, shapes: Any) -> None:
        count = len(self.parameters)
        if not isinstance(shapes, list | tuple) or len(shapes) != count:
            got = len(shapes) if isinstance(shapes, list | tuple) else _describe(shapes)
            raise ValueError(f"the state must be for {count} parameters; got one for {got}")
        for index, (shape, parameter) in enumerate(zip(shapes, self.parameters, strict=True)):
            if list(shape) != list(parameter.shape):
                raise ValueError(
                    f"parameter {index} must have shape {tuple(parameter.shape)} in the state; got {tuple(shape)}"
                )

    def _check_by_position(self, name: str, values: Any, check: Callable[[int, Any], None]) -> None:
        if not isinstance(values, Mapping):
            raise ValueError(f"{name} must be keyed by the position of the parameter; got {_describe(values)}")
        for index, value in values.items():
            if index not in range(len(self.parameters)):
                raise ValueError(
                    f"positions in {name} must be below {len(self.parameters)}, the number of parameters; got {index}"
                )
            check(index, value)

    def _check_mass(self, index: int, mass: Any) -> None:
        if not 0 <= _number("mass", mass) <= 1:
            raise ValueError(f"mass must be a number from 0 to 1; got {float(mass)} for parameter {index}")

    def _check_average(self, index: int, average: Any) -> None:
        parameter = self.parameters[index]
        if not isinstance(average, Tensor) or not average.is_floating_point():
            kind = average.dtype if isinstance(average, Tensor) else _describe(average)
            raise ValueError(f"an average must be a tensor of real numbers; got {kind} for parameter {index}")
        if average.shape != parameter.shape:
            raise ValueError(
                f"the average of parameter {index} must have shape {tuple(parameter.shape)}; got {tuple(average.shape)}"
            )
        if is_dtensor(parameter) != is_dtensor(average):
            kinds = ["a plain tensor", "a DTensor"]
            raise ValueError(
                f"the average of parameter {index} must be {kinds[is_dtensor(parameter)]}, as the parameter is; got "
                f"{kinds[is_dtensor(average)]}: save and load with torch.distributed.checkpoint"
            )

    def _tensor(self, value: Scalar) -> Tensor:
        """A new tensor with a scalar, in its own type if it has one."""
        if isinstance(value, Tensor):
            return value.detach().clone()
        dtype = None if isinstance(value, np.generic) else self._scalars.dtype
        return torch.tensor(value, dtype=dtype, device=self._scalars.device)

    def _dtype(self, like: Tensor) -> torch.dtype:
        """The type of the average of a gradient or parameter."""
        return self._average_dtype or compute_dtype(like.dtype)

    def _zeros(self, index: int) -> Tensor:
        parameter = self.parameters[index]
        return torch.zeros_like(parameter, dtype=self._dtype(parameter), requires_grad=False)

    def _match_layout(self, average: Tensor | None, like: Tensor) -> Tensor:
        """The average with a gradient's strides and device: itself if it has them, else a copy; zeros if None."""
        dtype = self._dtype(like)
        if average is None:
            return torch.zeros_like(like, dtype=dtype)
        shard, gradient = local(average), local(like)
        if shard.shape != gradient.shape:
            raise ValueError(
                f"a gradient must have the shape of its average, {tuple(shard.shape)}; got {tuple(gradient.shape)}: "
                "after resizing a parameter, make a new Surgery"
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
        raise ValueError(f"{name} must hold numbers; got {_describe(value)}") from None
    if not abs(number) < float("inf"):
        raise ValueError(f"{name} must hold finite numbers; got {number}")
    return number


def _describe(value: Any) -> str:
    """The value for an error message: its repr if short, else its type and length."""
    if isinstance(value, list | tuple | dict):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
