"""Cases that two processes train under DistributedDataParallel and one process trains with the whole batch.

torchrun --nproc-per-node=2 tests/transformers_front/ddp_worker.py FOLDER
"""

import sys
import warnings
from pathlib import Path

import torch
import torch.distributed as dist

import gradsurgery as gs
from tests.transformers_front.tiny import (
    CHECKPOINTING,
    StopAt,
    gpt2,
    identical,
    llama,
    plain_trainer,
    surgery_trainer,
    train,
)

BATCH = 4


def spread(model, inputs, outputs):
    """A loss of the outputs: under DDP, those of a second forward pass."""
    return outputs.logits.square().mean()


def spread_of_tokens(model, inputs, outputs, num_items_in_batch):
    kept = inputs["labels"][:, 1:].ne(-100)
    return outputs.logits[:, :-1].square().mean(-1)[kept].sum() / num_items_in_batch


def length(model, inputs):
    """A loss of the parameters alone."""
    return sum(parameter.square().sum() for parameter in model.parameters())


FUNCTION = {"aux_dataset": None, "compute_aux_loss": spread}
CASES = {
    "dataset": ({}, {}),
    "accumulation": ({}, {"gradient_accumulation_steps": 2}),
    "checkpointing": ({}, {CHECKPOINTING: True}),
    "all parameters used": ({}, {"ddp_find_unused_parameters": False, "gradient_accumulation_steps": 2}),
    "outputs": (FUNCTION, {}),
    "outputs, accumulation": (FUNCTION, {"gradient_accumulation_steps": 2}),
    "tokens": ({**FUNCTION, "compute_aux_loss": spread_of_tokens}, {"gradient_accumulation_steps": 2}),
    "parameters": ({**FUNCTION, "compute_aux_loss": length}, {"gradient_accumulation_steps": 2}),
}


def train_case(name, folder, processes):
    """The parameters and the first log of a case."""
    trainer_args, options = CASES[name]
    size = BATCH // processes // options.get("gradient_accumulation_steps", 1)
    trainer_args = trainer_args if "compute_aux_loss" in trainer_args else {**trainer_args, "aux_batch_size": size}
    trainer = surgery_trainer(
        folder,
        llama(),
        trainer_args=trainer_args,
        optim="sgd",
        learning_rate=0.1,
        per_device_train_batch_size=size,
        **options,
    )
    return train(trainer), trainer.state.log_history[0]


def resumes(folder):
    """Whether a run under DDP, with dropout, continues bit for bit."""
    options = {"save_strategy": "steps", "save_steps": 3, "max_steps": 7}
    whole = train(surgery_trainer(folder / "whole", **options))
    train(surgery_trainer(folder / "cut", trainer_args={"callbacks": [StopAt(6)]}, **options))
    return identical(train(surgery_trainer(folder / "cut", **options), resume_from_checkpoint=True), whole)


def lam_zero_is_trainer(folder):
    options = {"gradient_accumulation_steps": 2}
    with_surgery = train(surgery_trainer(folder, gpt2(), gs.bloop(lam=0.0, rho=0.1), **options))
    return identical(with_surgery, train(plain_trainer(folder, **options)))


def main(folder):
    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", module="torch|accelerate|transformers")
    torch.set_num_threads(1)
    results = {name: train_case(name, folder, processes=2) for name in CASES}
    results["resumes"] = resumes(folder)
    results["λ = 0 is Trainer"] = lam_zero_is_trainer(folder)
    torch.save(results, folder / f"{dist.get_rank()}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
