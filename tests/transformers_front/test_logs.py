"""Logs and evaluation metrics."""

import math

import pytest
import torch

import gradsurgery as gs
from tests.transformers_front.tiny import AUX, MAIN, gpt2, identical, plain_trainer, surgery_trainer, train


def training_logs(trainer):
    return [entry for entry in trainer.state.log_history if "loss" in entry]


def test_both_losses_and_diagnostics_are_logged(tmp_path):
    trainer = surgery_trainer(tmp_path)
    trainer.train()
    logs = training_logs(trainer)
    assert len(logs) == 3
    for entry in logs:
        assert entry["main_loss"] == pytest.approx(entry["loss"], rel=1e-6)
        assert 3 < entry["aux_loss"] < 4
        assert entry["aux_loss"] != entry["main_loss"]
        assert 0 <= entry["surgery/conflict"] <= 1
        assert entry["surgery/sound"] == 1


@pytest.mark.parametrize("steps", [1, 2])
def test_logs_are_averaged_over_their_window(tmp_path, steps):
    def logs(every):
        trainer = surgery_trainer(tmp_path, gradient_accumulation_steps=steps, logging_steps=every)
        trainer.train()
        return training_logs(trainer)

    each, (window,) = logs(1), logs(6)
    for name in ("main_loss", "aux_loss", "surgery/conflict"):
        values = [entry[name] for entry in each]
        assert len(set(values)) > 1, name
        assert window[name] == pytest.approx(sum(values) / 6, rel=1e-5), name


def test_a_step_that_the_scaler_skips_leaves_the_diagnostics_of_its_window_alone(tmp_path):
    calls = []

    def overflows_once(model, inputs, outputs):
        calls.append(inputs)
        return outputs.logits.square().mean() * (torch.inf if len(calls) == 3 else 1.0)

    trainer = surgery_trainer(
        tmp_path,
        trainer_args={"aux_dataset": None, "compute_aux_loss": overflows_once},
        logging_steps=4,
        max_grad_norm=0.0,
    )
    trainer.accelerator.scaler = torch.amp.GradScaler("cpu")
    trainer.train()
    (entry,) = training_logs(trainer)
    assert entry["surgery/sound"] == 0.75
    assert math.isfinite(entry["surgery/conflict"])


def test_evaluation_reports_the_auxiliary_loss(tmp_path):
    trainer_args = {"eval_dataset": MAIN, "aux_eval_dataset": AUX}
    trainer = surgery_trainer(tmp_path, gpt2(dropout=0), trainer_args=trainer_args, per_device_eval_batch_size=16)
    metrics = trainer.evaluate()
    expected = plain_trainer(tmp_path, trainer.model, per_device_eval_batch_size=16).evaluate(AUX)
    assert metrics["eval_aux_loss"] == expected["eval_loss"]
    assert trainer.state.log_history[-1]["eval_aux_loss"] == metrics["eval_aux_loss"]
    assert "eval_loss" in metrics
    assert "test_aux_loss" not in trainer.predict(MAIN).metrics


@pytest.mark.slow
def test_persistent_workers_do_not_mix_up_the_evaluation_datasets(tmp_path):
    """``get_eval_dataloader`` caches one loader then."""
    options = {"dataloader_num_workers": 1, "dataloader_persistent_workers": True}
    trainer_args = {"eval_dataset": MAIN, "aux_eval_dataset": AUX}
    expected = surgery_trainer(tmp_path, trainer_args=trainer_args).evaluate()
    metrics = surgery_trainer(tmp_path, trainer_args=trainer_args, **options).evaluate()
    for name in ("eval_loss", "eval_aux_loss"):
        assert metrics[name] == pytest.approx(expected[name], rel=1e-6)


def test_evaluation_reports_the_mean_of_a_loss_function(tmp_path):
    def spread(model, inputs, outputs):
        return outputs.logits.square().mean()

    trainer_args = {"aux_dataset": None, "compute_aux_loss": spread, "eval_dataset": MAIN, "aux_eval_dataset": AUX}
    trainer = surgery_trainer(tmp_path, gpt2(dropout=0), trainer_args=trainer_args, per_device_eval_batch_size=16)
    metrics = trainer.evaluate()
    with torch.no_grad():
        expected = trainer.model(input_ids=AUX.ids).logits.square().mean()
    assert metrics["eval_aux_loss"] == pytest.approx(float(expected), rel=1e-5)
    assert metrics["eval_loss"] > 3


@pytest.mark.slow
def test_the_auxiliary_loss_can_choose_the_best_model(tmp_path):
    trainer_args = {"eval_dataset": MAIN, "aux_eval_dataset": AUX}
    options = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_aux_loss"}
    trainer = surgery_trainer(tmp_path, trainer_args=trainer_args, **options, **best)
    trainer.train()
    evaluations = [entry["eval_aux_loss"] for entry in trainer.state.log_history if "eval_aux_loss" in entry]
    assert len(evaluations) == 3
    assert len(set(evaluations)) == 3
    assert trainer.state.best_metric == min(evaluations)


def test_evaluation_of_the_auxiliary_loss_leaves_training_as_it_was(tmp_path):
    options = {"eval_strategy": "steps", "eval_steps": 2}
    trainer_args = {"eval_dataset": MAIN, "aux_eval_dataset": AUX}
    main_alone = train(plain_trainer(tmp_path, **options, eval_dataset=MAIN))
    assert identical(
        train(surgery_trainer(tmp_path, method=gs.mixed(lam=0.0), trainer_args=trainer_args, **options)), main_alone
    )
