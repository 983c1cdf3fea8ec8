"""A frozen base with adapters: the surgery trains and saves the adapters alone."""

import torch
from torch import nn

from tests.transformers_front.tiny import BLOOP, StopAt, identical, llama, surgery_trainer, train


class Adapter(nn.Module):
    """A frozen linear layer plus the product of two small matrices."""

    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(2, base.in_features) / 10)
        self.up = nn.Parameter(torch.zeros(base.out_features, 2))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def adapted_llama():
    model = llama().requires_grad_(False)
    for layer in model.model.layers:
        layer.self_attn.q_proj = Adapter(layer.self_attn.q_proj)
    return model


def test_adapters_are_trained_and_the_base_is_not(tmp_path):
    model = adapted_llama()
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    after = train(surgery_trainer(tmp_path, model))
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {name for name in before if name.endswith((".down", ".up"))}


def test_checkpoints_hold_averages_of_the_adapters_alone(tmp_path):
    surgery_trainer(tmp_path, adapted_llama(), method=BLOOP, save_strategy="steps", save_steps=6).train()
    size = {name: (tmp_path / "checkpoint-6" / name).stat().st_size for name in ("surgery.pt", "model.safetensors")}
    assert size["surgery.pt"] < 0.1 * size["model.safetensors"]  # 256 of 23,008 numbers, and the file's overhead


def test_adapters_resume(tmp_path):
    options = {"save_strategy": "steps", "save_steps": 3}
    whole = train(surgery_trainer(tmp_path / "whole", adapted_llama(), **options))
    train(surgery_trainer(tmp_path / "cut", adapted_llama(), trainer_args={"callbacks": [StopAt(3)]}, **options))
    assert identical(
        train(surgery_trainer(tmp_path / "cut", adapted_llama(), **options), resume_from_checkpoint=True), whole
    )
