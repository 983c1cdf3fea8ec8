"""``SurgeryTrainer``: ``transformers.Trainer`` on a main and an auxiliary loss."""

from transformers import Trainer

from gradsurgery.transformers.mixin import SurgeryMixin


class SurgeryTrainer(SurgeryMixin, Trainer):
    """``transformers.Trainer`` that trains on a main and an auxiliary loss by gradient surgery.

        SurgeryTrainer(model, args, train_dataset=large, aux_dataset=small, method=gs.bloop(lam=0.1, rho=0.01))

    The main loss is that of ``Trainer``, and sees the batches and dropout masks that it would see there: with λ = 0 the
    parameters are equal bit for bit. Gradient accumulation, bf16 and fp16, ``max_grad_norm``, gradient checkpointing,
    ``torch_compile`` and DistributedDataParallel work as in ``Trainer``. The logs have ``main_loss``, ``aux_loss`` and
    the surgery's diagnostics (``surgery/conflict``, ...), averaged over the logging window. Checkpoints hold the state
    of the surgery and the position of the auxiliary loader.

    Args:
        *args: those of ``Trainer``.
        method: for example ``gradsurgery.bloop(lam=0.1)``; one that takes a single auxiliary loss.
        aux_dataset: the auxiliary loss is that of ``compute_loss`` on this dataset. It is shuffled and repeated
            independently of ``train_dataset``.
        compute_aux_loss: instead of ``aux_dataset``, a function of ``(model, inputs)`` with the training batch. With a
            parameter ``outputs`` it gets the outputs of the main loss's forward pass, which saves a second one
            (except under DistributedDataParallel, which needs a forward pass for each backward pass). Its values are
            averaged over micro-batches. With a parameter ``num_items_in_batch`` it gets the number of items (tokens)
            in all micro-batches of a step, and its values are summed instead: divide by that number.
        aux_batch_size: the batch size of ``aux_dataset`` on each device; by default ``per_device_train_batch_size``.
        aux_eval_dataset: ``evaluate`` reports the auxiliary loss on it as ``eval_aux_loss``.
        average_dtype: ``torch.bfloat16`` halves the memory of the surgery's averages; by default float32.
        **kwargs: those of ``Trainer``.
    """
