"""LoRA with a frozen base: adapters learn a new task, and the auxiliary loss keeps them close to the base's outputs.

    python examples/transformers/lora.py

The auxiliary loss is the Kullback-Leibler divergence from the base, which is the model with its adapters off, on the
training batch. ``outputs`` are those of the main loss, so the model with adapters makes one forward pass for both. The
surgery, like the optimiser, holds state for the adapters alone. The base counts by 1 or 2, and the adapters learn to
count by 1 or 3: without the auxiliary loss (λ = 0), the loss on the old task, counting by 2, ends at 3.2.
"""

import tempfile
from typing import Any

import torch
from torch import nn
from torch.nn.functional import kl_div
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

import gradsurgery as gs
from gradsurgery.transformers import SurgeryTrainer

NUMBERS, LENGTH = 16, 12


class LoRA(nn.Module):
    """A frozen linear layer plus the product of two small matrices."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))
        self.on = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The base's output, changed by the adapter if it is on."""
        return self.base(x) + x @ self.down.T @ self.up.T if self.on else self.base(x)


def add_adapters(model: LlamaForCausalLM) -> None:
    """Freeze the model, and put an adapter around every projection of its attention."""
    model.requires_grad_(False)
    for layer in model.model.layers:
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(layer.self_attn, name, LoRA(getattr(layer.self_attn, name)))


def divergence_from_base(model: nn.Module, inputs: dict[str, torch.Tensor], outputs: Any) -> torch.Tensor:
    """KL(base || model), averaged over tokens."""
    adapters = [module for module in model.modules() if isinstance(module, LoRA)]
    for adapter in adapters:
        adapter.on = False
    with torch.no_grad():
        base = model(input_ids=inputs["input_ids"]).logits.log_softmax(-1).flatten(0, 1)
    for adapter in adapters:
        adapter.on = True
    return kl_div(outputs.logits.log_softmax(-1).flatten(0, 1), base, log_target=True, reduction="batchmean")


def counting(size: int, *steps: int) -> list[dict[str, torch.Tensor]]:
    """Sequences that count from a random number by one of the steps, modulo 16."""
    starts = torch.randint(NUMBERS, (size, 1))
    chosen = torch.tensor(steps)[torch.randint(len(steps), (size, 1))]
    ids = (starts + chosen * torch.arange(LENGTH)) % NUMBERS
    return [{"input_ids": row, "labels": row} for row in ids]


def arguments(**options: Any) -> TrainingArguments:
    """What the two trainings have in common."""
    return TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=32,
        logging_steps=50,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        dataloader_pin_memory=False,
        **options,
    )


set_seed(0)
sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=NUMBERS, max_position_embeddings=LENGTH, **sizes))
Trainer(model, arguments(max_steps=150, learning_rate=3e-3), train_dataset=counting(2000, 1, 2)).train()

add_adapters(model)
trainer = SurgeryTrainer(
    model=model,
    args=arguments(max_steps=100, learning_rate=1e-2),
    train_dataset=counting(2000, 1, 3),
    compute_aux_loss=divergence_from_base,
    method=gs.bloop(lam=2.0, rho=0.05),
    eval_dataset={"main": counting(200, 1, 3), "old": counting(200, 2)},
)
before = trainer.evaluate()
trainer.train()
after = trainer.evaluate()
adapters = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
print(f"adapters: {adapters} of {model.num_parameters()} parameters")
print(f"before: main {before['eval_main_loss']:.3f}, old {before['eval_old_loss']:.3f}")
print(f"after: main {after['eval_main_loss']:.3f}, old {after['eval_old_loss']:.3f}")
