"""Gradient surgery for Hugging Face ``transformers``: ``Trainer`` with a method and an auxiliary dataset or loss.

    trainer = SurgeryTrainer(
        model=model,
        args=TrainingArguments(...),
        train_dataset=large,
        aux_dataset=small,                         # or compute_aux_loss=function
        method=gs.bloop(lam=0.1, rho=0.01),
    )
    trainer.train()

Everything else is ``Trainer``: arguments, callbacks, checkpoints, evaluation. ``SurgeryMixin`` adds the same to a
subclass of ``Trainer``, such as TRL's ``SFTTrainer``.
"""

try:
    import transformers as _transformers  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'gradsurgery.transformers needs transformers: pip install "gradsurgery[transformers]"', name=error.name
    ) from error

from gradsurgery.transformers.mixin import SurgeryMixin
from gradsurgery.transformers.trainer import SurgeryTrainer

__all__ = ["SurgeryMixin", "SurgeryTrainer"]
