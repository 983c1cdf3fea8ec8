"""A whole step of GPT-2 under ``SurgeryTrainer`` and under Accelerate: bloop compared with the summed loss.

Two ways to get two losses: two batches, each with a forward pass of its own, or one batch with a shared forward pass.
"""

import tempfile
from collections.abc import Callable
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer, TrainingArguments

import gradsurgery as gs
import gradsurgery.torch as gst
from benchmarks.harness import Action, Measure, Plan, interleaved, ratios
from gradsurgery.transformers import SurgeryTrainer

LAM = 0.1
VOCABULARY, LENGTH, BATCH = 512, 64, 4

Batch = dict[str, Tensor]


def measure(plan: Plan) -> list[Measure]:
    """The lines of the table."""
    lines = []
    for name, rivals in (
        ("SurgeryTrainer", trainer_steps(plan)),
        ("Accelerate", accelerate_steps(plan)),
    ):
        seconds = interleaved(rivals, plan.repetitions)
        lines += [
            Measure(f"{name}, {line}", ratios(seconds, of, to), unit)
            for line, of, to, unit in (
                ("two batches: bloop", "two batches, bloop", "two batches, summed", "summed loss"),
                ("one shared forward pass: bloop", "shared, bloop", "shared, summed", "summed loss"),
                ("a forward pass for each loss: bloop", "own forward, bloop", "shared, bloop", "shared"),
            )
        ]
    return lines


def make_model(plan: Plan) -> GPT2LMHeadModel:
    """GPT-2 with 3.3 million parameters and without dropout."""
    width, layers = (32, 1) if plan.quick else (256, 4)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=LENGTH,
            n_embd=width,
            n_layer=layers,
            n_head=4,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=0,
            eos_token_id=0,
        )
    )


def make_batch() -> Batch:
    """Random tokens to predict."""
    ids = torch.randint(0, VOCABULARY, (BATCH, LENGTH))
    return {"input_ids": ids, "labels": ids}


def log_partition(logits: Tensor) -> Tensor:
    """An auxiliary loss on the outputs alone: it keeps the softmax's normaliser near 1."""
    return logits.logsumexp(-1).square().mean()


def aux_of_outputs(model: nn.Module, inputs: Batch, outputs: Any) -> Tensor:
    """The auxiliary loss from main's forward pass."""
    return log_partition(outputs["logits"])


def aux_of_model(model: nn.Module, inputs: Batch) -> Tensor:
    """The same with a forward pass of its own."""
    return log_partition(model(**inputs).logits)


class SummedTrainer(Trainer):
    """``Trainer`` on main + lam aux, where aux is the loss of a second batch or is computed from main's outputs.

    Args:
        aux_batch: the second batch, or None.
        **kwargs: those of ``Trainer``.
    """

    def __init__(self, aux_batch: Batch | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.aux_batch = aux_batch

    def compute_loss(self, model: nn.Module, inputs: Batch, *args: Any, **kwargs: Any) -> Tensor:
        """The summed loss."""
        outputs = model(**inputs)
        aux = log_partition(outputs.logits) if self.aux_batch is None else model(**self.aux_batch).loss
        return outputs.loss + LAM * aux


def trainer_steps(plan: Plan) -> dict[str, Action]:
    """Steps of ``Trainer``, each way to train with a model of its own."""
    main, aux = make_batch(), make_batch()
    dataset = [{name: values[row] for name, values in aux.items()} for row in range(BATCH)]
    method = gs.bloop(lam=LAM)

    def step(kind: type[Trainer], **options: Any) -> Action:
        arguments = TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            max_steps=1,
            per_device_train_batch_size=BATCH,
            learning_rate=1e-5,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=True,
            dataloader_pin_memory=False,
        )
        trainer = kind(model=make_model(plan), args=arguments, train_dataset=dataset, **options)
        trainer.remove_callback(PrinterCallback)
        trainer.train()  # makes the optimiser and the surgery
        model, optimiser = trainer.model_wrapped, trainer.optimizer

        def run() -> None:
            trainer.training_step(model, main)
            trainer.accelerator.clip_grad_norm_(model.parameters(), arguments.max_grad_norm)
            optimiser.step()
            model.zero_grad()

        return run

    return {
        "two batches, summed": step(SummedTrainer, aux_batch=aux),
        "two batches, bloop": step(SurgeryTrainer, aux_dataset=dataset, method=method),
        "shared, summed": step(SummedTrainer),
        "shared, bloop": step(SurgeryTrainer, compute_aux_loss=aux_of_outputs, method=method),
        "own forward, bloop": step(SurgeryTrainer, compute_aux_loss=aux_of_model, method=method),
    }


def accelerate_steps(plan: Plan) -> dict[str, Action]:
    """Steps of a loop under Accelerate, each way to train with a model of its own."""
    accelerator = Accelerator(cpu=True)
    main, aux = make_batch(), make_batch()

    def step(make_backward: Callable[[nn.Module], Action]) -> Action:
        model = make_model(plan)
        prepared, optimiser = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-5))
        backward = make_backward(prepared)

        def run() -> None:
            with accelerator.accumulate(prepared):
                backward()
                accelerator.clip_grad_norm_(prepared.parameters(), 1.0)
                optimiser.step()
                optimiser.zero_grad()

        return run

    def summed(losses: Callable[[nn.Module], tuple[Tensor, Tensor]]) -> Callable[[nn.Module], Action]:
        def make(model: nn.Module) -> Action:
            def backward() -> None:
                main_loss, aux_loss = losses(model)
                accelerator.backward(main_loss + LAM * aux_loss)

            return backward

        return make

    def bloop(losses: Callable[[nn.Module], tuple[Any, Any]]) -> Callable[[nn.Module], Action]:
        def make(model: nn.Module) -> Action:
            surgery = gst.Surgery(model.parameters(), gs.bloop(lam=LAM), accelerator=accelerator)

            def backward() -> None:
                surgery.backward(*losses(model))
                surgery.apply()

            return backward

        return make

    def shared(model: nn.Module) -> tuple[Tensor, Tensor]:
        outputs = model(**main)
        return outputs.loss, log_partition(outputs.logits)

    return {
        "two batches, summed": step(summed(lambda model: (model(**main).loss, model(**aux).loss))),
        "two batches, bloop": step(bloop(lambda model: (lambda: model(**main).loss, lambda: model(**aux).loss))),
        "shared, summed": step(summed(shared)),
        "shared, bloop": step(bloop(shared)),
        "own forward, bloop": step(
            bloop(lambda model: (lambda: model(**main).loss, lambda: log_partition(model(**main).logits)))
        ),
    }
