"""``RandomStream``: random numbers that leave the global generators as they were."""

import random
from types import TracebackType
from typing import Any

import numpy as np
import torch
from transformers import set_seed


class RandomStream:
    """Inside ``with stream:``, the global generators of Python, NumPy and PyTorch continue the stream's own sequence.

    The auxiliary loss draws its batches and its dropout masks from streams, so that the main loss sees the batches and
    the masks that it would see under ``Trainer``.

    Args:
        seed: where the sequence starts.
        device: the device whose generator belongs to the stream, besides the CPU's.
    """

    def __init__(self, seed: int, device: torch.device) -> None:
        self._device = device
        self._outside = _generator_states(device)
        set_seed(seed)
        self._inside = _generator_states(device)
        _restore(self._outside, device)

    def __enter__(self) -> None:
        self._outside = _generator_states(self._device)
        _restore(self._inside, self._device)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside = _generator_states(self._device)
        _restore(self._outside, self._device)

    def state_dict(self) -> dict[str, Any]:
        """The position in the sequence, in containers that ``torch.load(weights_only=True)`` reads."""
        return dict(self._inside)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a saved position."""
        self._inside = dict(state)


def _generator_states(device: torch.device) -> dict[str, Any]:
    kind, keys, *position = np.random.get_state()  # noqa: NPY002  (the global generator, which collators use)
    states: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": (kind, torch.from_numpy(np.asarray(keys)), *position),
        "torch": torch.get_rng_state(),
    }
    if device.type != "cpu":
        states["device"] = torch.get_device_module(device).get_rng_state()
    return states


def _restore(states: dict[str, Any], device: torch.device) -> None:
    kind, keys, *position = states["numpy"]
    random.setstate(states["python"])
    np.random.set_state((kind, keys.numpy(), *position))  # noqa: NPY002
    torch.set_rng_state(states["torch"])
    if "device" in states and device.type != "cpu":
        torch.get_device_module(device).set_rng_state(states["device"])
