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
        aux_dataset: its loss, computed by ``compute_loss`` as the main loss is, is the auxiliary loss. It is shuffled
            and repeated independently of ``train_dataset``.
        compute_aux_loss: instead of ``aux_dataset``, a function of ``(model, inputs)`` with the training batch. With a
            parameter ``outputs`` it gets the outputs of the main loss's forward pass, which saves a second one
            (except under DistributedDataParallel, which needs a forward pass for each backward pass). Its mean over
            micro-batches counts; with a parameter ``num_items_in_batch`` it gets the number of items (tokens) in the
            micro-batches of a step, and their sum counts: divide by it.
        aux_batch_size: for each device, as ``per_device_train_batch_size``, which is the default.
        aux_eval_dataset: ``evaluate`` reports the auxiliary loss on it as ``eval_aux_loss``.
        **kwargs: those of ``Trainer``.
    """
