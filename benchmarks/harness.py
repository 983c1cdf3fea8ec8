"""Rivals in turn in one process: warmed up, the order rotating, every repetition kept."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

Action = Callable[[], object]


@dataclass(frozen=True)
class Measure:
    """One line of the table: a ratio that was measured several times, and what it should be."""

    name: str
    ratios: list[float]
    unit: str
    """What the ratio is to."""
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def median(self) -> float:
        """The middle one, which a disturbance on a shared machine does not move."""
        return statistics.median(self.ratios)

    @property
    def reach(self) -> str:
        """What it should be, in words."""
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        return "" if self.at_least is None else f"at least {self.at_least:g}"

    @property
    def reached(self) -> bool:
        """Whether it is what it should be; a line without a goal is."""
        return (self.at_most is None or self.median <= self.at_most) and (
            self.at_least is None or self.median >= self.at_least
        )


@dataclass(frozen=True)
class Plan:
    """How much to do: everything, or one repetition of something small to see that it runs."""

    quick: bool = False

    @property
    def repetitions(self) -> int:
        """For what takes less than a second; benchmarks that take longer do fewer."""
        return 1 if self.quick else 21

    def shapes(self) -> list[tuple[int, ...]]:
        """Tensors to measure the passes on: a ResNet50's 161 of mixed sizes, with 25,557,032 parameters in all."""
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
    """Seconds that each rival takes, each repetition right beside those of the others.

    An action may return a function: it is then the part that counts, and what came before it was preparation.
    """
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    names = list(rivals)
    for repetition in range(min(warmup, repetitions) + repetitions):
        for name in names:
            taken = _timed(rivals[name])
            if repetition >= min(warmup, repetitions):
                seconds[name].append(taken)
        names.append(names.pop(0))
    return seconds


def _timed(action: Action) -> float:
    began = time.perf_counter()
    counted = action()
    if callable(counted):
        began = time.perf_counter()
        counted()
    return time.perf_counter() - began


def ratios(seconds: Mapping[str, list[float]], of: str, to: str) -> list[float]:
    """One rival's time over another's, repetition by repetition."""
    return [a / b for a, b in zip(seconds[of], seconds[to], strict=True)]


def in_place_add(words: int) -> Action:
    """The yardstick: an addition in place that reads and writes about so many words in all, on all threads.

    It moves three words for each element. On machines where reading is the bottleneck and writing is free, no
    combination of passes that reads six words for every two that it writes comes nearer than 1.1 times this.
    """
    a, b = torch.ones(max(words // 3, 1)), torch.ones(max(words // 3, 1))
    return lambda: (a.add_(b), None)[1]
