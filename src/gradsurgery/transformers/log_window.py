"""``LogWindow``: means of losses and diagnostics since the last log."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class LogWindow:
    """Sums on the device, so that only ``means`` waits for it."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._steps = 0

    def add(self, values: Mapping[str, Tensor]) -> None:
        """Add values of a step, or of one of its micro-batches."""
        for name, value in values.items():
            value = value.detach().float()
            self._sums[name] = self._sums[name] + value if name in self._sums else value

    def end_step(self, diagnostics: Mapping[str, Tensor]) -> None:
        """Count a step and add its diagnostics; in an unsound step they may be NaN, and count as zero."""
        sound = diagnostics["sound"] > 0
        self.add({f"surgery/{name}": torch.where(sound, value, 0.0) for name, value in diagnostics.items()})
        self._steps += 1

    def means(self, accelerator: Any) -> dict[str, float]:
        """The mean of each value over processes and steps (for diagnostics, over sound steps); starts a new window."""
        if not self._sums:
            return {}
        reduced = accelerator.reduce(torch.stack(list(self._sums.values())), reduction="mean") / self._steps
        means = dict(zip(self._sums, reduced.tolist(), strict=True))
        self._sums, self._steps = {}, 0
        sound = means.get("surgery/sound") or float("nan")
        return {
            name: mean / sound if name.startswith("surgery/") and name != "surgery/sound" else mean
            for name, mean in means.items()
        }
