"""Distillation: a student learns from labels, and from a teacher's outputs as far as that does not disturb.

    python examples/transformers/distillation.py

Both losses come from one forward pass of the student: ``compute_aux_loss`` has a parameter ``outputs``.
"""

import tempfile
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import kl_div
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

import gradsurgery as gs
from gradsurgery.transformers import SurgeryTrainer

NUMBERS, LENGTH = 16, 12


def counting(size: int, *steps: int) -> list[dict[str, torch.Tensor]]:
    """Sequences that count from a random number by one of the steps, modulo 16."""
    starts = torch.randint(NUMBERS, (size, 1))
    chosen = torch.tensor(steps)[torch.randint(len(steps), (size, 1))]
    ids = (starts + chosen * torch.arange(LENGTH)) % NUMBERS
    return [{"input_ids": row, "labels": row} for row in ids]


def gpt2(width: int, layers: int) -> GPT2LMHeadModel:
    """A GPT-2 of some size."""
    sizes = {"n_embd": width, "n_layer": layers, "n_positions": LENGTH}
    return GPT2LMHeadModel(GPT2Config(vocab_size=NUMBERS, n_head=2, bos_token_id=0, eos_token_id=0, **sizes))


def divergence(teacher: nn.Module, model: nn.Module, inputs: dict[str, torch.Tensor], outputs: Any) -> torch.Tensor:
    """KL(teacher || student), averaged over tokens."""
    with torch.no_grad():
        target = teacher(input_ids=inputs["input_ids"]).logits.log_softmax(-1).flatten(0, 1)
    return kl_div(outputs.logits.log_softmax(-1).flatten(0, 1), target, log_target=True, reduction="batchmean")


def arguments(**options: Any) -> TrainingArguments:
    """What the two trainings have in common."""
    return TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=32,
        learning_rate=3e-3,
        logging_steps=50,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        dataloader_pin_memory=False,
        **options,
    )


set_seed(0)
teacher = gpt2(width=48, layers=2)
Trainer(teacher, arguments(max_steps=150), train_dataset=counting(2000, 1, 2, 3)).train()

test = counting(200, 1, 2, 3)
trainer = SurgeryTrainer(
    model=gpt2(width=16, layers=1),
    args=arguments(max_steps=150),
    train_dataset=counting(200, 1, 2, 3),
    compute_aux_loss=partial(divergence, teacher.eval()),
    method=gs.bloop(lam=1.0, rho=0.05),
    eval_dataset=test,
    aux_eval_dataset=test,
)
before = trainer.evaluate()
trainer.train()
after = trainer.evaluate()
print(f"main {before['eval_loss']:.3f} -> {after['eval_loss']:.3f}")
print(f"aux {before['eval_aux_loss']:.3f} -> {after['eval_aux_loss']:.3f}")
