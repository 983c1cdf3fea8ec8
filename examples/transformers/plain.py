"""A plain ``Trainer`` script, for comparison: a small GPT-2 learns to count by 1 or 2; counting by 3 is tested too.

    python examples/transformers/plain.py

``trainer.py`` is the same script with counting by 3 as the auxiliary loss.
"""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

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
trainer = Trainer(
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
    eval_dataset={"main": counting(200, 1, 2), "aux": counting(200, 3)},
)
trainer.train()
metrics = trainer.evaluate()
print(f"main {metrics['eval_main_loss']:.3f}, aux {metrics['eval_aux_loss']:.3f}")
