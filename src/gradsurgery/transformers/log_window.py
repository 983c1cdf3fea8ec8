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

    def end_step(self) -> None:
        """Count a step."""
        self._steps += 1

    def means(self, accelerator: Any) -> dict[str, float]:
        """The mean over steps and processes of each value; starts a new window."""
        if not self._sums:
            return {}
        means = accelerator.reduce(torch.stack(list(self._sums.values())), reduction="mean") / self._steps
        named = dict(zip(self._sums, means.tolist(), strict=True))
        self._sums, self._steps = {}, 0
        return named
