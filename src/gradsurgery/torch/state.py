"""What a surgery carries from step to step: averages, and a few scalars."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gradsurgery.method import Method
from gradsurgery.plan import Plan
from gradsurgery.scalar import Scalar
from gradsurgery.torch.layout import laid_like
from gradsurgery.torch.scalars import Numbers, wide


class State:
    """The state of a method at work on some parameters.

    Args:
        method: the method.
        parameters: what the averages are of.
        numbers: the scalars.
    """

    def __init__(self, method: Method, parameters: list[Tensor], numbers: Numbers) -> None:
        self._method, self._parameters, self._numbers = method, parameters, numbers
        self._averages: list[list[Tensor | None]] = [[None] * len(parameters) for _ in range(method.averages)]
        self.steps = 0
        """Steps so far, unsound ones too."""
        self.mass: Scalar = numbers.scalar(0.0)
        """The moving average of the number 1, from which averages are corrected for their start at zero."""
        self.memory: tuple[Scalar, ...] = (self.mass,) * len(method.memory)
        """The method's own scalars."""

    def check(self, method: Method) -> None:
        """Raise unless this is the state of such a method."""
        kept = self._method
        if (type(method), method.averages, method.memory) != (type(kept), kept.averages, kept.memory):
            raise ValueError(f"the state of this surgery is of {kept!r}: to train by {method!r}, make a new Surgery")

    def has_averages(self, index: int) -> bool:
        """Whether the parameter at this place has averages already."""
        return any(level[index] is not None for level in self._averages)

    def averages(self, index: int, like: Tensor) -> list[Tensor]:
        """The averages of the parameter at this place, laid as its gradient is; they are to be moved in place."""
        found = []
        for level in self._averages:
            level[index] = average = laid_like(like, level[index])
            found.append(average)
        return found

    def move(self, step: Plan, sound: Scalar) -> None:
        """Move the scalars, unless the step is unsound; the averages are moved where they lie."""
        self.steps += 1
        self.mass = self._numbers.chosen(sound, step.mass, self.mass)
        self.memory = tuple(
            self._numbers.chosen(sound, new, old) for new, old in zip(step.memory, self.memory, strict=True)
        )

    def saved(self) -> dict[str, Any]:
        """All of it, in plain containers."""
        return {
            "method": self._method.name,
            "shapes": [list(parameter.shape) for parameter in self._parameters],
            "steps": self.steps,
            "mass": self._numbers.tensor(self.mass),
            "memory": [self._numbers.tensor(number) for number in self.memory],
            "averages": [
                [
                    # a zero for what is not there yet, as torch.distributed.checkpoint loads into what it finds
                    torch.zeros_like(parameter, dtype=wide(parameter.dtype)) if average is None else average
                    for average, parameter in zip(level, self._parameters, strict=True)
                ]
                for level in self._averages
            ],
        }

    def load(self, saved: Mapping[str, Any]) -> None:
        """Go on from what was saved, by copies."""
        self._check(saved)
        self.steps = int(saved["steps"])
        self.mass, *memory = (
            self._numbers.scalar(self._numbers.tensor(number).clone()) for number in (saved["mass"], *saved["memory"])
        )
        self.memory = tuple(memory)
        self._averages = [
            [
                None if average is None else average.to(parameter.device, wide(parameter.dtype), copy=True)
                for average, parameter in zip(level, self._parameters, strict=True)
            ]
            for level in saved["averages"]
        ]

    def _check(self, saved: Mapping[str, Any]) -> None:
        """Raise unless the state is of this method and for these parameters."""
        mine = self.saved()
        if saved["method"] != mine["method"]:
            raise ValueError(f"the state is of the method {saved['method']}, but this surgery's is {mine['method']}")
        for what in ("averages", "memory"):
            if len(saved[what]) != len(mine[what]):
                raise ValueError(
                    f"the state has {len(saved[what])} {what}, but {self._method!r} keeps {len(mine[what])}"
                )
        if len(saved["shapes"]) != len(mine["shapes"]):
            raise ValueError(
                f"the state is for {len(saved['shapes'])} parameters, but this surgery has {len(mine['shapes'])}"
            )
        for index, ours in enumerate(mine["shapes"]):
            averages = [level[index] for level in saved["averages"]]
            for theirs in (saved["shapes"][index], *(one.shape for one in averages if one is not None)):
                if list(theirs) != ours:
                    raise ValueError(
                        f"parameter {index} has shape {tuple(theirs)} in the state, but {tuple(ours)} here"
                    )
