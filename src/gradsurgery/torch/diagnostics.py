"""Diagnostics of a surgery: means over a window, and ``explain``, which puts them into words."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gradsurgery.scalar import Scalar
from gradsurgery.torch.scalars import Scalars

if TYPE_CHECKING:
    from gradsurgery.torch.surgery import Surgery

LITTLE, MUCH = 0.1, 0.5
"""Shares of steps in conflict, or of aux removed, below and above which the advice changes."""
FEW = 10
"""Steps below which there is no advice: in the first one the average is empty, and nothing conflicts with it."""

ADVICE_UNSOUND = "look for overflow in the losses, or lower the learning rate."


Sums = dict[str, tuple[Scalar, Scalar]]
"""For each value, its sum over steps and their number: not equal if the number of auxiliary losses changes."""


class Means:
    """Means over sound steps, since the start and since the last ``reset``, summed without waiting for the device.

    The mean of ``sound`` is over all steps.

    Args:
        scalars: makes the scalars.
    """

    def __init__(self, scalars: Scalars) -> None:
        self._scalars = scalars
        # a device may have no float64, so keep the window apart: added to a large sum, its values would lose digits
        self._before: Sums = {}
        self._window: Sums = {}

    @property
    def steps(self) -> int:
        """All steps, including unsound ones."""
        return sum(int(sums["sound"][1]) for sums in (self._before, self._window) if sums)

    def reset(self) -> None:
        """Start a new window."""
        self._before, self._window = _add(self._before, self._window), {}

    def add(self, values: Mapping[str, Scalar], sound: Scalar) -> None:
        """Add the values of one step; those of an unsound step are left out."""
        select, zero = self._scalars.select, 0.0 if self._scalars.is_async else np.float64(0.0)
        counted = select(sound, 1.0, 0.0)
        step = {name: (zero + select(sound, value, 0.0), counted) for name, value in values.items()}
        self._window = _add(self._window, {**step, "sound": (counted, 1.0)})

    def since_start(self) -> dict[str, Scalar]:
        """The mean of each value, and the share of sound steps as ``sound``; empty before the first step."""
        return _means(_add(self._before, self._window))

    def window(self) -> dict[str, Scalar]:
        """The means since the last ``reset``; empty if there was no step."""
        return _means(self._window)


def _add(first: Sums, second: Sums) -> Sums:
    sums = dict(first)
    for name, (total, count) in second.items():
        before, counted = sums.get(name, (0.0, 0.0))
        sums[name] = before + total, counted + count
    return sums


def _means(sums: Sums) -> dict[str, Scalar]:
    # a count on a device is a tensor, which divides by zero
    return {
        name: total / count if not isinstance(count, float) or count else float("nan")
        for name, (total, count) in sums.items()
    }


def explain(surgery: "Surgery") -> str:
    """Say how much the losses were in conflict over all steps, and what to do about it. Blocks on the device.

        >>> import torch, gradsurgery as gs, gradsurgery.torch as gst
        >>> weight = torch.nn.Parameter(torch.ones(2))
        >>> surgery = gst.Surgery([weight], gs.bloop(lam=0.1), measure=True)
        >>> for _ in range(4):
        ...     _ = surgery.backward(weight[0], weight[1] - weight[0])
        ...     surgery.apply()
        >>> sentences = gst.explain(surgery).split(". ")
        >>> print(sentences[0])
        In 4 steps, aux pointed against main in 75 % (mean cosine -0.71), and 53 % of aux was removed

    Args:
        surgery: the surgery; ``measure=True`` adds cosines, and how much of aux was removed.
    """
    parts, texts = surgery._parts, []
    for index, part in enumerate(parts):
        means = {name: float(value) for name, value in part.means.since_start().items()}
        text = _explain(part.method.name, part.means.steps, means) if means else "There has been no step yet."
        texts.append(f"Group {index}, {part.method}: {text}" if len(parts) > 1 else text)
    return "\n".join(texts)


def _explain(method: str, steps: int, means: Mapping[str, float]) -> str:
    conflict, cosine, removed = (means.get(name) for name in ("conflict", "cos_main_aux", "removed"))
    if means["sound"] == 0:
        return f"No step was finite ({steps} so far): {ADVICE_UNSOUND}"
    facts = []
    if conflict is not None:
        facts.append(f"aux pointed against main in {_percent(conflict)}")
        if cosine is not None:
            facts[0] += f" (mean cosine {cosine:.2f})"
    if removed is not None:
        facts.append(f"{_percent(removed)} of aux was removed")
    count = f"{steps} step{'s' * (steps != 1)}"
    summary = f"In {count}, {', and '.join(facts)}. " if facts else f"{count} so far. "
    if means["sound"] < 0.99:
        share = _percent(1 - means["sound"])
        return f"{summary}{share} were not finite and left the averages unchanged: {ADVICE_UNSOUND}"
    return summary + (_advice(method, conflict, removed) if steps >= FEW else "Too few steps for advice.")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _advice(method: str, conflict: float | None, removed: float | None) -> str:
    if conflict is None or (removed is None and method == "mixed"):
        return "Make the surgery with measure=True to learn how much the losses conflict."
    if conflict < LITTLE and (removed is None or removed < LITTLE):
        return "With so little conflict, gs.mixed would do as well."
    if method == "mixed":
        return "gs.mixed follows aux even where it harms main: gs.bloop would not."
    if removed is not None and removed > MUCH:
        return (
            "Surgery takes away much of aux, so aux will learn slowly: if it may cost main something, compare with "
            "gs.mixed or a larger lam."
        )
    return "The losses do conflict, so surgery has something to do: choose lam by comparing several."
