"""``plain.py`` with an auxiliary dataset: Bloop also learns a few sequences that count by 3.

    python examples/transformers/trainer.py

``SurgeryTrainer`` is ``Trainer`` with ``aux_dataset`` and ``method``. Its logs have both losses and the surgery's
diagnostics.
"""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments, set_seed

import gradsurgery as gs
from gradsurgery.transformers import SurgeryTrainer

NUMBERS, LENGTH = 16, 12


def counting(size: int, *steps: int) -> list[dict[str, torch.Tensor]]:
    """Sequences that count from a random number by one of the steps, modulo 16."""
    starts = torch.randint(NUMBERS, (size, 1))
    chosen = torch.tensor(steps)[torch.randint(len(steps), (size, 1))]
    ids = (starts + chosen * torch.arange(LENGTH)) % NUMBERS
    return [{"input_ids": row, "labels": row} for row in ids]


set_seed(0)
config = GPT2Config(
    vocab_size=NUMBERS, n_positions=LENGTH, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0
)
trainer = SurgeryTrainer(
    model=GPT2LMHeadModel(config),
    args=TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=150,
        per_device_train_batch_size=32,
        learning_rate=3e-3,
        logging_steps=50,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        dataloader_pin_memory=False,
    ),
    train_dataset=counting(2000, 1, 2),
    aux_dataset=counting(50, 3),
    method=gs.bloop(lam=0.3, rho=0.05),
    eval_dataset={"main": counting(200, 1, 2), "aux": counting(200, 3)},
)
trainer.train()
metrics = trainer.evaluate()
print(f"main {metrics['eval_main_loss']:.3f}, aux {metrics['eval_aux_loss']:.3f}")
