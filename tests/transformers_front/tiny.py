"""Tiny causal language models and random token data, and the trainers of the tests."""

from collections import namedtuple

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import gradsurgery as gs
from gradsurgery.transformers import SurgeryTrainer

VOCABULARY, LENGTH = 29, 12
BLOOP = gs.bloop(lam=0.5, rho=0.1)


def gpt2(seed=0, dropout=0.1):
    torch.manual_seed(seed)
    dropouts = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    sizes = {"vocab_size": VOCABULARY, "n_positions": LENGTH, "n_embd": 32, "n_layer": 2, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**sizes, **dropouts, bos_token_id=0, eos_token_id=0))


def llama(seed=0):
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=LENGTH,
        )
    )


class Tokens(Dataset):
    """Sequences of random tokens; labels are masked up to a place that differs between sequences."""

    def __init__(self, size, seed, masked=True):
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(VOCABULARY, (size, LENGTH), generator=generator)
        self.labels = self.ids.clone()
        if masked:
            starts = torch.randint(LENGTH - 3, (size, 1), generator=generator)
            self.labels[torch.arange(LENGTH) < starts] = -100

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.labels[index]}


MAIN, AUX = Tokens(20, seed=1), Tokens(16, seed=2)
# transformers 5.23 renamed the option, and warns about the old name
CHECKPOINTING = "activation_checkpointing"
if not hasattr(TrainingArguments, CHECKPOINTING):
    CHECKPOINTING = "gradient_checkpointing"


def arguments(folder, **options):
    defaults = {
        "max_steps": 6,
        "per_device_train_batch_size": 4,
        "learning_rate": 1e-2,
        "logging_steps": 2,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
    }
    return TrainingArguments(output_dir=str(folder), **{**defaults, **options})


def plain_trainer(folder, model=None, *, eval_dataset=None, **options):
    args = arguments(folder, **options)
    return Trainer(model or gpt2(), args, train_dataset=MAIN, eval_dataset=eval_dataset)


def surgery_trainer(folder, model=None, method=BLOOP, *, trainer_args=None, **options):
    """A ``SurgeryTrainer``; ``trainer_args`` are its own arguments, ``options`` are training arguments."""
    trainer_args = {"aux_dataset": AUX, "train_dataset": MAIN, **(trainer_args or {})}
    return SurgeryTrainer(model=model or gpt2(), args=arguments(folder, **options), method=method, **trainer_args)


class CustomLoaderTrainer(SurgeryTrainer):
    """Its loader of aux draws its order from PyTorch's generator, and has no ``set_epoch``."""

    def get_aux_dataloader(self):
        return DataLoader(self.aux_dataset, batch_size=4, shuffle=True)


class StopAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = state.global_step >= self.step


def train(trainer, **options):
    """Train, and return the parameters."""
    trainer.train(**options)
    return {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}


def identical(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def distance(a, b):
    """The largest difference between two sets of parameters."""
    return max(float((a[name] - b[name]).abs().max()) for name in a)


Outputs = namedtuple("Outputs", ["loss", "logits", "square_loss"])


class Classifier(nn.Module):
    """A model whose loss is a plain mean, and that takes no ``num_items_in_batch``."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, features, labels):
        logits = self.layers(features)
        return Outputs(cross_entropy(logits, labels), logits, logits.square().mean())


class Labelled(Dataset):
    """Random features and labels."""

    def __init__(self, size, seed):
        generator = torch.Generator().manual_seed(seed)
        self.features = torch.randn(size, 5, generator=generator)
        self.labels = torch.randint(3, (size,), generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"features": self.features[index], "labels": self.labels[index]}
