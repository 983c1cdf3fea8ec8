"""Accelerate: scale the losses, divide them by the number of micro-batches, and step after the last one."""

from typing import Any

from torch import Tensor

from gradsurgery.torch.losses import Loss

UNSUPPORTED = ("DEEPSPEED", "MEGATRON_LM", "FSDP")


class AcceleratorAdapter:
    """Scales and divides each loss as ``accelerator.backward`` does with a single one.

    Args:
        accelerator: an ``accelerate.Accelerator``.
    """

    def __init__(self, accelerator: Any) -> None:
        for name in ("gradient_accumulation_steps", "sync_gradients", "scaler"):
            if not hasattr(accelerator, name):
                raise TypeError(f"accelerator must be an accelerate.Accelerator; got {accelerator!r}")
        kind = getattr(getattr(accelerator, "distributed_type", None), "name", "NO")
        if kind in UNSUPPORTED and not getattr(accelerator, "is_fsdp2", False):
            raise ValueError(f"Accelerate must run on one device, under DDP or under FSDP2; got {kind}")
        self._accelerator = accelerator

    @property
    def sync_gradients(self) -> bool:
        """Whether this is the last micro-batch of a step."""
        return bool(self._accelerator.sync_gradients)

    @property
    def scaler(self) -> Any:
        """The ``GradScaler``, or None."""
        return self._accelerator.scaler

    def wrap(self, loss: Loss, values: list[Tensor]) -> Loss:
        """The loss, scaled and divided by the number of micro-batches; its plain value is appended to ``values``."""
        if not isinstance(loss, Tensor) and callable(loss):
            return lambda: self._scale(loss(), values)
        return self._scale(loss, values)

    def _scale(self, loss: Tensor, values: list[Tensor]) -> Tensor:
        if not isinstance(loss, Tensor):
            return loss  # backward raises
        values.append(loss.detach())
        divided = loss / self._accelerator.gradient_accumulation_steps
        return divided if self.scaler is None else self.scaler.scale(divided)
