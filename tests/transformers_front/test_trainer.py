"""``SurgeryTrainer`` against ``Trainer``, and against itself with other batch sizes."""

from itertools import groupby

import pytest
import torch
from accelerate.data_loader import prepare_data_loader
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback

import gradsurgery as gs
from gradsurgery.transformers import SurgeryTrainer
from gradsurgery.transformers.aux_batches import AuxBatches
from gradsurgery.transformers.random_stream import RandomStream
from tests.transformers_front.tiny import (
    AUX,
    BLOOP,
    CHECKPOINTING,
    MAIN,
    Classifier,
    CustomLoaderTrainer,
    Labelled,
    arguments,
    distance,
    gpt2,
    identical,
    llama,
    plain_trainer,
    surgery_trainer,
    train,
)

LAM_ZERO = [gs.mixed(lam=0.0), gs.bloop(lam=0.0, rho=0.1)]


@pytest.mark.slow
@pytest.mark.parametrize("method", LAM_ZERO, ids=repr)
@pytest.mark.parametrize(
    "options",
    [{}, {"gradient_accumulation_steps": 2}, {"bf16": True}, {"max_grad_norm": 0.1}, {CHECKPOINTING: True}],
    ids=str,
)
def test_lam_zero_is_trainer_bit_for_bit(tmp_path, method, options):
    assert identical(
        train(surgery_trainer(tmp_path, method=method, **options)), train(plain_trainer(tmp_path, **options))
    )


def test_lam_zero_is_trainer_with_a_custom_loader(tmp_path):
    """Its order, drawn from PyTorch's generator, leaves main's dropout masks as they were."""
    args = arguments(tmp_path)
    trainer = CustomLoaderTrainer(gpt2(), args, train_dataset=MAIN, aux_dataset=AUX, method=gs.mixed(lam=0.0))
    assert identical(train(trainer), train(plain_trainer(tmp_path)))


def test_lam_above_zero_is_not_trainer(tmp_path):
    assert distance(train(surgery_trainer(tmp_path)), train(plain_trainer(tmp_path))) > 1e-3


def test_mixed_is_trainer_on_the_sum_of_the_losses(tmp_path):
    """One dataset for both, in one order: λ = 1 doubles the gradient."""

    class Doubled(Trainer):
        def compute_loss(self, *args, **kwargs):
            return 2 * super().compute_loss(*args, **kwargs)

    options = {"optim": "sgd", "train_sampling_strategy": "sequential"}
    both = surgery_trainer(tmp_path, gpt2(dropout=0), gs.mixed(lam=1.0), trainer_args={"aux_dataset": MAIN}, **options)
    doubled = Doubled(gpt2(dropout=0), arguments(tmp_path, **options), train_dataset=MAIN)
    assert distance(train(both), train(doubled)) < 1e-6


# --- accumulation


@pytest.mark.parametrize("steps", [2, 4])
def test_accumulation_of_token_losses_is_the_large_batch(tmp_path, steps):
    """Sequences have different numbers of labels, so a mean of the means of micro-batches would differ."""

    def parameters(size, steps, aux_size):
        trainer = surgery_trainer(
            tmp_path,
            llama(),
            trainer_args={"aux_batch_size": aux_size},
            optim="sgd",
            per_device_train_batch_size=size,
            gradient_accumulation_steps=steps,
        )
        return train(trainer)

    large = parameters(4, 1, 4)
    assert distance(parameters(4 // steps, steps, 4 // steps), large) < 1e-6
    # the comparison is sensitive: with twice as many auxiliary sequences the difference shows
    assert distance(parameters(4 // steps, steps, 2 * 4 // steps), large) > 1e-5


@pytest.mark.parametrize(
    "trainer_args",
    [{}, {"compute_aux_loss": lambda model, inputs: model(**inputs).square_loss}],
    ids=["dataset", "function"],
)
def test_accumulation_of_mean_losses_is_the_large_batch(tmp_path, trainer_args):
    def parameters(size, steps):
        aux = trainer_args or {"aux_dataset": Labelled(24, seed=4), "aux_batch_size": size}
        args = arguments(
            tmp_path,
            optim="sgd",
            learning_rate=0.1,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=steps,
        )
        return train(SurgeryTrainer(Classifier(), args, train_dataset=Labelled(24, seed=3), method=BLOOP, **aux))

    assert distance(parameters(2, 4), parameters(8, 1)) < 1e-6


def test_a_loss_function_that_takes_the_number_of_items_is_summed_over_micro_batches(tmp_path):
    def token_loss(model, inputs, outputs, num_items_in_batch):
        kept = inputs["labels"][:, 1:].ne(-100)
        return outputs.logits[:, :-1].square().mean(-1)[kept].sum() / num_items_in_batch

    def parameters(size, steps):
        trainer_args = {"aux_dataset": None, "compute_aux_loss": token_loss}
        options = {"optim": "sgd", "per_device_train_batch_size": size, "gradient_accumulation_steps": steps}
        return train(surgery_trainer(tmp_path, llama(), trainer_args=trainer_args, **options))

    assert distance(parameters(2, 2), parameters(4, 1)) < 1e-6


def test_the_last_step_of_an_epoch_may_have_fewer_micro_batches(tmp_path):
    """20 sequences are 5 batches of 4: steps of 2, 2 and 1."""
    options = {"gradient_accumulation_steps": 2, "max_steps": -1, "num_train_epochs": 2}
    trainer = surgery_trainer(tmp_path, method=gs.mixed(lam=0.0), **options)
    assert identical(train(trainer), train(plain_trainer(tmp_path, **options)))
    assert trainer.state.global_step == 6
    assert trainer._aux_pending == []


class EndEpochOnce(TrainerCallback):
    """Ends an epoch between the two micro-batches of its second step."""

    ended = False

    def on_substep_end(self, args, state, control, **kwargs):
        if state.global_step == 1 and not self.ended:
            control.should_epoch_stop = self.ended = True


@pytest.mark.filterwarnings("ignore:this step adds up more micro-batches")  # as under Trainer
def test_a_step_takes_new_auxiliary_batches_after_an_epoch_that_was_cut_short(tmp_path):
    """The micro-batches of a step are divided by their common number of tokens."""
    options = {"gradient_accumulation_steps": 2, "max_steps": 6}
    trainer = surgery_trainer(tmp_path, trainer_args={"callbacks": [EndEpochOnce()]}, **options)
    divisors, compute = [], trainer._aux_loss
    trainer._aux_loss = lambda model, inputs, items: (divisors.append(items), compute(model, inputs, items))[1]
    trainer.train()
    assert [len(list(step)) for _, step in groupby(divisors, key=id)] == [2, 1, 2, 2, 1]


# --- what Trainer offers


def test_gradients_are_clipped_after_surgery(tmp_path):
    trainer = surgery_trainer(tmp_path, optim="sgd", max_grad_norm=1e-3, max_steps=1, learning_rate=1.0)
    before = {name: parameter.detach().clone() for name, parameter in trainer.model.named_parameters()}
    after = train(trainer)
    moved = torch.cat([(after[name] - before[name]).reshape(-1) for name in after])
    assert float(moved.norm()) == pytest.approx(1e-3, rel=1e-3)


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing_changes_nothing(tmp_path, reentrant):
    options = {CHECKPOINTING: True, f"{CHECKPOINTING}_kwargs": {"use_reentrant": reentrant}}
    assert distance(train(surgery_trainer(tmp_path, **options)), train(surgery_trainer(tmp_path))) < 1e-6


def test_bf16_trains_like_float32(tmp_path):
    options = {"optim": "sgd", "learning_rate": 0.1}
    assert (
        0
        < distance(train(surgery_trainer(tmp_path, bf16=True, **options)), train(surgery_trainer(tmp_path, **options)))
        < 1e-2
    )


def test_losses_scaled_for_float16_train_like_float32(tmp_path):
    """Accelerate makes a scaler on GPUs only, so give it one for the CPU; its scale grows in every step."""
    options = {"optim": "sgd", "max_grad_norm": 0.0}
    trainer = surgery_trainer(tmp_path, **options)
    trainer.accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**6, growth_factor=4.0, growth_interval=1)
    assert distance(train(trainer), train(surgery_trainer(tmp_path, **options))) < 1e-6
    assert trainer.state.log_history[0]["main_loss"] == pytest.approx(trainer.state.log_history[0]["loss"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # Dynamo's own
@pytest.mark.parametrize("shared", [False, True], ids=["two forward passes", "one forward pass"])
def test_a_compiled_model_trains_like_an_eager_one(tmp_path, shared):
    """Dynamo and AOTAutograd trace the model; Inductor's kernels would take a minute to build and test only PyTorch."""

    def spread(model, inputs, outputs):
        return outputs.logits.square().mean()

    trainer_args = {"aux_dataset": None, "compute_aux_loss": spread} if shared else {}
    options = {"optim": "sgd", "max_steps": 3, "trainer_args": trainer_args}
    with torch._functorch.config.patch(donated_buffer=True):  # restored at the end
        compiled = train(surgery_trainer(tmp_path, gpt2(dropout=0), torch_compile_backend="aot_eager", **options))
        assert torch._functorch.config.donated_buffer != shared
    compiled = {name.removeprefix("_orig_mod."): parameter for name, parameter in compiled.items()}
    assert distance(compiled, train(surgery_trainer(tmp_path, gpt2(dropout=0), **options))) < 1e-4


def test_averages_may_be_in_bfloat16(tmp_path):
    trainer = surgery_trainer(tmp_path, trainer_args={"average_dtype": torch.bfloat16})
    train(trainer)
    assert {average.dtype for average in trainer.surgery.state_dict()["averages"][0].values()} == {torch.bfloat16}


def test_the_auxiliary_dataset_has_a_batch_size_and_epochs_of_its_own(tmp_path):
    """16 sequences are 2 batches of 8: after 6 steps the loader is at the end of its third epoch."""
    trainer = surgery_trainer(tmp_path, trainer_args={"aux_batch_size": 8})
    train(trainer)
    position = trainer._aux_batches.state_dict()
    assert (position["epoch"], position["batch"]) == (2, 2)


class EpochNumbers:
    """A batch sampler that shuffles by epoch, as that of ``train_sampling_strategy="batch_rebalance"`` does."""

    epoch, batch_size, drop_last = 0, None, False

    def __len__(self):
        return 4

    def __iter__(self):
        return iter([[self.epoch]] * len(self))

    def set_epoch(self, epoch):
        self.epoch = epoch


@pytest.mark.parametrize("processes", [1, 2])
def test_a_batch_sampler_learns_the_epoch(processes):
    loader = prepare_data_loader(
        DataLoader(range(9), batch_sampler=EpochNumbers()), num_processes=processes, process_index=0, even_batches=False
    )
    per_epoch = 4 // processes
    batches = AuxBatches(loader, RandomStream(0, torch.device("cpu")))
    assert [int(next(batches)) for _ in range(3 * per_epoch)] == [epoch for epoch in range(3) for _ in range(per_epoch)]
