"""Checks of the arguments and the setup of ``SurgeryTrainer``, before training starts, and of what a model returns."""

from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from gradsurgery.method import Method

if TYPE_CHECKING:
    from gradsurgery.transformers.mixin import SurgeryMixin


def check_arguments(method: Any, aux_dataset: Any, compute_aux_loss: Any, aux_batch_size: Any) -> None:
    """Raise unless the arguments specify a method and exactly one auxiliary loss."""
    if not isinstance(method, Method):
        raise TypeError(f"the method must be one such as gradsurgery.bloop(lam=0.1); got {method!r}")
    if method.aux_count not in (None, 1):
        raise ValueError(f"the method must take one auxiliary loss; got {method!r}, which takes {method.aux_count}")
    if (aux_dataset is None) == (compute_aux_loss is None):
        count = "neither" if aux_dataset is None else "both"
        raise ValueError(f"SurgeryTrainer needs either aux_dataset or compute_aux_loss; got {count}")
    if aux_dataset is not None and hasattr(aux_dataset, "__len__") and len(aux_dataset) == 0:
        raise ValueError("aux_dataset must have at least one example; got none")
    if aux_batch_size is not None:
        if aux_dataset is None:
            raise ValueError("aux_batch_size must come with aux_dataset; got it without")
        if aux_batch_size < 1:
            raise ValueError(f"aux_batch_size must be at least 1; got {aux_batch_size!r}")


def check_setup(trainer: "SurgeryMixin") -> None:
    """Raise for engines and optimizers that do not give a gradient for each loss."""
    optim = str(getattr(trainer.args.optim, "value", trainer.args.optim))
    if trainer.is_deepspeed_enabled:
        raise ValueError(
            "SurgeryTrainer does not work with DeepSpeed, which reduces the gradient of a single loss inside its "
            "engine: train with DistributedDataParallel (torchrun)"
        )
    if trainer.is_fsdp_enabled or getattr(trainer, "is_distributed_loading_by_transformers", False):
        raise ValueError(
            "SurgeryTrainer does not work with FSDP or with models that are sharded when they are loaded: train with "
            "DistributedDataParallel (torchrun), or with fully_shard (FSDP2) in a loop of your own around "
            "gradsurgery.torch.Surgery"
        )
    parallelism = getattr(trainer.accelerator, "parallelism_config", None)
    if any(getattr(parallelism, name, False) for name in ("cp_enabled", "sp_enabled")):
        raise ValueError(
            "SurgeryTrainer does not work with context or sequence parallelism: train with DistributedDataParallel"
        )
    strategy = getattr(trainer.args, "train_sampling_strategy", None)
    if strategy == "batch_rebalance" and trainer.aux_batch_size is not None:
        raise ValueError(
            "aux_batch_size must be left out with train_sampling_strategy='batch_rebalance', which sizes the batches "
            f"by their length; got {trainer.aux_batch_size}"
        )
    if "lomo" in optim or optim.endswith("_layerwise"):
        raise ValueError(
            f"optim must step after the backward pass, as adamw_torch does; got {optim!r}, which updates parameters "
            "during it"
        )


def check_outputs(outputs: Any, trainer_name: str) -> None:
    """Raise unless ``compute_loss`` has kept outputs that the auxiliary loss can be differentiated through.

    TRL's ``SFTTrainer`` returns outputs of a second forward pass under ``no_grad``: gradients would be lost silently.
    """
    if outputs is None:
        raise RuntimeError(
            "compute_aux_loss takes outputs, which SurgeryMixin.compute_loss keeps, but compute_loss of "
            f"{trainer_name} does not call it"
        )
    tensors = [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, Tensor)]
    if tensors and not any(tensor.requires_grad for tensor in tensors):
        raise RuntimeError(
            f"compute_aux_loss takes outputs, but compute_loss of {trainer_name} returns outputs without a graph: "
            "leave that parameter out, and call model(**inputs) in compute_aux_loss"
        )
