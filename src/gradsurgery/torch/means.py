"""``Means``: means of the diagnostics of one part, summed without waiting for the device."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from gradsurgery.scalar import Scalar
from gradsurgery.torch.scalars import Scalars


@dataclass
class _Sums:
    """Sums over sound steps; ``steps`` counts unsound ones too."""

    steps: int = 0
    sound: Scalar = 0.0
    values: dict[str, Scalar] = field(default_factory=dict)
    counts: dict[str, Scalar] = field(default_factory=dict)
    """The sound steps that had each value: not all of them, if the number of auxiliary losses changes."""

    def __add__(self, other: "_Sums") -> "_Sums":
        values, counts = _add(self.values, other.values), _add(self.counts, other.counts)
        return _Sums(self.steps + other.steps, self.sound + other.sound, values, counts)

    def means(self) -> dict[str, Scalar]:
        """The mean of each value, and the share of sound steps as ``sound``; empty without a step."""
        if self.steps == 0:
            return {}
        means = {name: _divide(total, self.counts[name]) for name, total in self.values.items()}
        return {**means, "sound": self.sound / self.steps}


class Means:
    """Means over sound steps, since the start and since the last call of ``mark``.

    Args:
        scalars: makes the scalars.
    """

    def __init__(self, scalars: Scalars) -> None:
        self._scalars = scalars
        # a device may have no float64, so keep the window apart: added to a large sum, its values would lose digits
        self._before, self._window = _Sums(), _Sums()
        self._zero = 0.0 if scalars.is_async else np.float64(0.0)

    @property
    def steps(self) -> int:
        """All steps, including unsound ones."""
        return self._before.steps + self._window.steps

    def mark(self) -> None:
        """Start a new window for ``since_mark``."""
        self._before, self._window = self._before + self._window, _Sums()

    def add(self, values: Mapping[str, Scalar], sound: Scalar) -> None:
        """Add the values of one step; those of an unsound step are left out."""
        window = self._window
        counted = self._scalars.select(sound, 1.0, 0.0)
        window.steps += 1
        window.sound = window.sound + counted
        for name, value in values.items():
            window.counts[name] = window.counts.get(name, 0.0) + counted
            window.values[name] = window.values.get(name, self._zero) + self._scalars.select(sound, value, 0.0)

    def since_start(self) -> dict[str, Scalar]:
        """The mean of each value, and the share of sound steps as ``sound``; empty before the first step."""
        return (self._before + self._window).means()

    def since_mark(self) -> dict[str, Scalar]:
        """The means since the last call of ``mark``; empty if there was no step."""
        return self._window.means()


def _add(a: Mapping[str, Scalar], b: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {name: a.get(name, 0.0) + b.get(name, 0.0) for name in {**a, **b}}


def _divide(total: Scalar, count: Scalar) -> Scalar:
    return total / count if not isinstance(count, float) or count else float("nan")
