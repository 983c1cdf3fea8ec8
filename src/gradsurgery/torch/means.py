"""``Means``: means of the diagnostics of one part, summed without waiting for the device."""

from collections.abc import Mapping

from gradsurgery.scalar import Scalar
from gradsurgery.torch.scalars import Scalars


class Means:
    """Means over sound steps, since the start and since the last call of ``mark``.

    Args:
        scalars: makes the scalars.
    """

    def __init__(self, scalars: Scalars) -> None:
        self._scalars = scalars
        self.steps = 0
        """All steps, including unsound ones."""
        self._sound: Scalar = 0.0
        self._sums: dict[str, Scalar] = {}
        self.mark()

    def mark(self) -> None:
        """Start a new window for ``since_mark``."""
        self._marked = self.steps, self._sound, dict(self._sums)

    def add(self, values: Mapping[str, Scalar], sound: Scalar) -> None:
        """Add the values of one step; those of an unsound step are left out."""
        self.steps += 1
        self._sound = self._sound + self._scalars.select(sound, 1.0, 0.0)
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + self._scalars.select(sound, value, 0.0)

    def since_start(self) -> dict[str, Scalar]:
        """The mean of each value, and the share of sound steps as ``sound``; empty before the first step."""
        return self._means(0, 0.0, {})

    def since_mark(self) -> dict[str, Scalar]:
        """The means since the last call of ``mark``; empty if there was no step."""
        return self._means(*self._marked)

    def _means(self, steps: int, sound: Scalar, sums: Mapping[str, Scalar]) -> dict[str, Scalar]:
        if self.steps == steps:
            return {}
        count = self._sound - sound
        means = {name: _divide(total - sums.get(name, 0.0), count) for name, total in self._sums.items()}
        return {**means, "sound": count / (self.steps - steps)}


def _divide(total: Scalar, count: Scalar) -> Scalar:
    return total / count if not isinstance(count, float) or count else float("nan")
