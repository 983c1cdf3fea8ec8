"""Wrong arguments and unsupported setups raise one sentence, before training starts."""

import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from accelerate import ParallelismConfig
from transformers import Trainer

import gradsurgery as gs
from gradsurgery.transformers import SurgeryMixin, SurgeryTrainer
from gradsurgery.transformers.checks import check_setup
from tests.transformers_front.tiny import AUX, MAIN, Tokens, arguments, gpt2, identical, surgery_trainer, train


def loss(model, inputs):
    raise NotImplementedError


@pytest.mark.parametrize(
    ("trainer_args", "sentence"),
    [
        ({"aux_dataset": None}, "needs either aux_dataset or compute_aux_loss; got neither"),
        ({"compute_aux_loss": loss}, "needs either aux_dataset or compute_aux_loss; got both"),
        (
            {"aux_dataset": None, "compute_aux_loss": loss, "aux_batch_size": 4},
            "aux_batch_size must come with aux_dataset; got it without",
        ),
        ({"aux_batch_size": 0}, "aux_batch_size must be at least 1; got 0"),
    ],
)
def test_exactly_one_auxiliary_loss_is_required(tmp_path, trainer_args, sentence):
    with pytest.raises(ValueError, match=sentence):
        surgery_trainer(tmp_path, trainer_args=trainer_args)


def test_a_method_is_required(tmp_path):
    with pytest.raises(TypeError, match=r"must be one such as gradsurgery.bloop\(lam=0.1\); got 'bloop'"):
        surgery_trainer(tmp_path, method="bloop")


def test_a_method_for_two_auxiliary_losses_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must take one auxiliary loss; got bloop\(lam=\(0.1, 0.01\).* takes 2"):
        surgery_trainer(tmp_path, method=gs.bloop(lam=(0.1, 0.01)))


@pytest.mark.parametrize("function", [lambda model: 0, lambda model, inputs, output: 0, lambda: 0])
def test_a_loss_function_takes_model_and_inputs(tmp_path, function):
    with pytest.raises(TypeError, match=r"compute_aux_loss takes \(model, inputs\), and if it needs them outputs"):
        surgery_trainer(tmp_path, trainer_args={"aux_dataset": None, "compute_aux_loss": function})


def test_compute_aux_loss_must_be_callable(tmp_path):
    with pytest.raises(TypeError, match="compute_aux_loss must be a function of model and inputs; got 3"):
        surgery_trainer(tmp_path, trainer_args={"aux_dataset": None, "compute_aux_loss": 3})


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda model, inputs: model(**inputs), "CausalLMOutputWithCrossAttentions"),
        (lambda model, inputs: model(**inputs).loss.item(), "float"),
    ],
)
def test_a_loss_function_returns_a_tensor(tmp_path, function, kind):
    trainer = surgery_trainer(tmp_path, trainer_args={"aux_dataset": None, "compute_aux_loss": function})
    with pytest.raises(TypeError, match=f"compute_aux_loss must return a scalar tensor; got a {kind}"):
        trainer.train()


def test_an_empty_dataset_is_refused(tmp_path):
    with pytest.raises(ValueError, match="aux_dataset must have at least one example; got none"):
        surgery_trainer(tmp_path, trainer_args={"aux_dataset": []})


@pytest.mark.parametrize("examples", [[], [{"input_ids": AUX[0]["input_ids"]}]], ids=["empty", "unlabelled"])
def test_evaluation_on_examples_without_labels_is_refused(tmp_path, examples):
    trainer = surgery_trainer(tmp_path, trainer_args={"eval_dataset": MAIN, "aux_eval_dataset": examples})
    with pytest.raises(ValueError, match="aux_eval_dataset must have examples with labels"):
        trainer.evaluate()


def test_a_dataset_smaller_than_a_dropped_batch_is_refused(tmp_path):
    with pytest.raises(ValueError, match="aux_dataset yields no batch"):
        surgery_trainer(tmp_path, trainer_args={"aux_dataset": Tokens(3, seed=0)}, dataloader_drop_last=True).train()


@pytest.mark.parametrize("optim", ["lomo", "adalomo", "galore_adamw_layerwise"])
def test_optimizers_that_step_during_the_backward_pass_are_refused(tmp_path, optim):
    with pytest.raises(ValueError, match=f"optim must step after the backward pass.*; got '{optim}'"):
        surgery_trainer(tmp_path, optim=optim)


def fake_trainer(**changes):
    """The attributes of a trainer that ``check_setup`` reads, with no engine installed or launched."""
    accelerator = SimpleNamespace(parallelism_config=changes.pop("parallelism_config", None))
    flags = dict.fromkeys(("is_deepspeed_enabled", "is_fsdp_enabled", "is_distributed_loading_by_transformers"), False)
    return SimpleNamespace(accelerator=accelerator, args=SimpleNamespace(optim="adamw_torch"), **{**flags, **changes})


@pytest.mark.parametrize(
    ("trainer", "sentence"),
    [
        (fake_trainer(is_deepspeed_enabled=True), "does not work with DeepSpeed"),
        (fake_trainer(is_fsdp_enabled=True), "does not work with FSDP"),
        (fake_trainer(is_distributed_loading_by_transformers=True), "models that are sharded when they are loaded"),
        (
            fake_trainer(parallelism_config=ParallelismConfig(cp_size=2)),
            "does not work with context or sequence parallelism",
        ),
    ],
)
def test_engines_that_own_the_backward_pass_are_refused(trainer, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_setup(trainer)
    check_setup(fake_trainer())


def test_a_batch_size_that_the_sampler_would_ignore_is_refused():
    trainer = fake_trainer(aux_batch_size=2)
    trainer.args.train_sampling_strategy = "batch_rebalance"  # of transformers 5.23
    with pytest.raises(ValueError, match=r"aux_batch_size must be left out with .*'batch_rebalance'.*; got 2"):
        check_setup(trainer)
    trainer.aux_batch_size = None
    check_setup(trainer)


class CustomStep(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = self.compute_loss(model, inputs)
        loss.backward()
        return loss.detach()


class SurgeryOnCustomStep(SurgeryMixin, CustomStep):
    pass


def test_a_trainer_with_its_own_backward_pass_is_refused(tmp_path):
    args = arguments(tmp_path)
    trainer = SurgeryOnCustomStep(gpt2(), args, train_dataset=MAIN, aux_dataset=AUX, method=gs.mixed(lam=1.0))
    with pytest.raises(RuntimeError, match=r"needs one call of accelerator\.backward in training_step, but Surgery"):
        trainer.train()


class CustomLoss(SurgeryTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return model(**inputs).loss


def test_a_subclass_that_does_not_keep_the_outputs_is_refused(tmp_path):
    def spread(model, inputs, outputs):
        raise NotImplementedError

    args = arguments(tmp_path)
    trainer = CustomLoss(gpt2(), args, train_dataset=MAIN, compute_aux_loss=spread, method=gs.mixed(lam=1.0))
    with pytest.raises(RuntimeError, match=r"compute_loss of CustomLoss does not call it"):
        trainer.train()


class OutputsOfASecondPass(Trainer):
    """As TRL's ``SFTTrainer`` from 1.16: the outputs that it returns have no graph."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss = model(**inputs).loss
        with torch.no_grad():
            outputs = model(**inputs)
        return (loss, outputs) if return_outputs else loss


class SurgeryOnASecondPass(SurgeryMixin, OutputsOfASecondPass):
    pass


def test_outputs_without_a_graph_are_refused(tmp_path):
    """The weights alone would give aux a graph, and the gradient through the outputs would be lost silently."""

    def spread_and_weights(model, inputs, outputs):
        return outputs.logits.square().mean() + sum(parameter.square().sum() for parameter in model.parameters())

    trainer = SurgeryOnASecondPass(
        gpt2(), arguments(tmp_path), train_dataset=MAIN, compute_aux_loss=spread_and_weights, method=gs.mixed(lam=1.0)
    )
    with pytest.raises(RuntimeError, match=r"compute_loss of SurgeryOnASecondPass returns outputs without a graph"):
        trainer.train()


def test_a_missing_transformers_says_how_to_get_it():
    code = "import sys; sys.modules['transformers'] = None; import gradsurgery.transformers"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'gradsurgery.transformers needs transformers: pip install "gradsurgery[transformers]"' in run.stderr


def test_the_auxiliary_dataset_may_be_a_list(tmp_path):
    listed = surgery_trainer(tmp_path, trainer_args={"aux_dataset": [AUX[index] for index in range(len(AUX))]})
    assert identical(train(listed), train(surgery_trainer(tmp_path)))
