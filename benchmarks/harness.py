"""Times rivals in turn in one process: after a warm-up, in rotating order, keeping every repetition."""

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

Action = Callable[[], object]

DEVICE = os.environ.get("GRADSURGERY_DEVICE", "cpu")
"""The device of all measurements in PyTorch; JAX chooses its own."""


@dataclass(frozen=True)
class Measure:
    """One line of the table: a ratio, measured several times, and its goal."""

    name: str
    ratios: list[float]
    unit: str
    """What the ratio is relative to."""
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        """The median: a disturbance on a shared machine does not move it."""
        return statistics.median(self.ratios)

    @property
    def goal(self) -> str:
        """The goal in words; empty if there is none."""
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        return "" if self.at_least is None else f"at least {self.at_least:g}"

    @property
    def reaches_goal(self) -> bool:
        """Whether the median reaches the goal; True if there is none."""
        return (self.at_most is None or self.median <= self.at_most) and (
            self.at_least is None or self.median >= self.at_least
        )


@dataclass(frozen=True)
class Plan:
    """How much to measure: everything, or one repetition of small cases, to check that they run."""

    quick: bool = False

    @property
    def threads(self) -> int:
        """For PyTorch and linear algebra; one in a quick round, which may share the machine with others."""
        return 1 if self.quick else min(2, os.cpu_count() or 1)

    @property
    def repetitions(self) -> int:
        """For actions that take less than a second; slower benchmarks do fewer."""
        return 1 if self.quick else 21

    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of the tensors to measure the passes on: a ResNet50's 161, with 25,557,032 elements in all."""
        return resnet50()[:12] if self.quick else resnet50()


def resnet50() -> list[tuple[int, ...]]:
    """The shapes of a ResNet50's parameters, as PyTorch has them."""
    shapes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    before = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            convolutions = [(width, before, 1, 1), (width, width, 3, 3), (4 * width, width, 1, 1)]
            convolutions += [(4 * width, before, 1, 1)] if block == 0 else []
            for shape in convolutions:
                shapes += [shape, shape[:1], shape[:1]]
            before = 4 * width
    return [*shapes, (1000, 2048), (1000,)]


def interleaved(rivals: Mapping[str, Action], repetitions: int, warmup: int = 3) -> dict[str, list[float]]:
    """The seconds that each rival takes in each repetition. Repetitions of different rivals alternate.

    An action may return a function: then only that function is timed, and the action itself is preparation.
    """
    torch.set_default_device(None)  # as in a user's program: a default device slows every call down
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    names = list(rivals)
    for repetition in range(min(warmup, repetitions) + repetitions):
        for name in names:
            duration = _time(rivals[name])
            if repetition >= min(warmup, repetitions):
                seconds[name].append(duration)
        names.append(names.pop(0))
    if DEVICE != "cpu":
        torch.set_default_device(DEVICE)
    return seconds


def _time(action: Action) -> float:
    start = time.perf_counter()
    timed_part = action()
    if callable(timed_part):
        _synchronize()
        start = time.perf_counter()
        timed_part()
    _synchronize()
    return time.perf_counter() - start


def _synchronize() -> None:
    if DEVICE != "cpu":
        torch.accelerator.synchronize()


def device_name() -> str:
    """The name of the device, as its maker gives it."""
    return str(torch.cuda.get_device_name()) if DEVICE.startswith("cuda") else DEVICE


def ratios(seconds: Mapping[str, list[float]], of: str, to: str) -> list[float]:
    """One rival's time divided by another's, for each repetition."""
    return [a / b for a, b in zip(seconds[of], seconds[to], strict=True)]


def in_place_add(words: int) -> Action:
    """The yardstick: an addition in place, on all threads, that reads and writes about this many words in all.

    It moves three words for each element. On machines where reading is the bottleneck and writing is free, passes that
    read six words for every two that they write take at least 1.1 times as long.
    """
    a, b = torch.ones(max(words // 3, 1)), torch.ones(max(words // 3, 1))
    return lambda: (a.add_(b), None)[1]
