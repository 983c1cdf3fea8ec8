"""A resumed run ends with the parameters of one that was not interrupted."""

import pytest
import torch
from torch.utils.data import default_collate

import gradsurgery as gs
from tests.transformers_front.tiny import (
    AUX,
    BLOOP,
    MAIN,
    CustomLoaderTrainer,
    StopAt,
    arguments,
    gpt2,
    identical,
    plain_trainer,
    surgery_trainer,
    train,
)

SAVING = {"save_strategy": "steps", "save_steps": 3, "max_steps": 7}


def mask_at_random(rows):
    """A collator that draws from PyTorch's generator, as that of masked language models does."""
    batch = default_collate(rows)
    batch["input_ids"] = torch.where(torch.rand(batch["input_ids"].shape) < 0.2, 0, batch["input_ids"])
    return batch


def squared_norm(model, inputs):
    return sum(parameter.square().sum() for parameter in model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("stop", [3, 6])
@pytest.mark.parametrize(
    ("method", "trainer_args", "options"),
    [
        (BLOOP, {}, {}),
        (BLOOP, {"aux_batch_size": 5}, {"gradient_accumulation_steps": 2}),
        (gs.gradvac(), {}, {}),
        (BLOOP, {"aux_dataset": None, "compute_aux_loss": squared_norm}, {}),
    ],
    ids=["bloop", "accumulation", "gradvac", "function"],
)
def test_resuming_changes_nothing(tmp_path, stop, method, trainer_args, options):
    """Dropout, both loaders' orders and the averages continue; the auxiliary loader is in its second epoch at 6."""
    options = {**SAVING, **options}
    whole = train(surgery_trainer(tmp_path / "whole", method=method, trainer_args=trainer_args, **options))
    cut = surgery_trainer(
        tmp_path / "cut", method=method, trainer_args={**trainer_args, "callbacks": [StopAt(stop)]}, **options
    )
    assert not identical(train(cut), whole)
    resumed = surgery_trainer(tmp_path / "cut", method=method, trainer_args=trainer_args, **options)
    assert identical(train(resumed, resume_from_checkpoint=True), whole)


def test_a_custom_loader_resumes(tmp_path):
    def trainer(folder, **options):
        args = arguments(tmp_path / folder, **SAVING)
        return CustomLoaderTrainer(gpt2(), args, train_dataset=MAIN, aux_dataset=AUX, method=BLOOP, **options)

    whole = train(trainer("whole"))
    train(trainer("cut", callbacks=[StopAt(6)]))
    assert identical(train(trainer("cut"), resume_from_checkpoint=True), whole)


def test_a_resumed_run_repeats_the_aux_batches_of_a_random_collator(tmp_path):
    """``Trainer`` makes no such promise for the main loader."""

    def aux_batches(folder, **resuming):
        seen = []
        trainer = surgery_trainer(folder, trainer_args={"data_collator": mask_at_random}, **SAVING)
        compute = trainer._aux_loss
        trainer._aux_loss = lambda model, inputs, items: (
            seen.append(inputs["input_ids"]),
            compute(model, inputs, items),
        )[1]
        trainer.train(**resuming)
        return torch.cat(seen)

    whole = aux_batches(tmp_path)
    assert torch.equal(aux_batches(tmp_path, resume_from_checkpoint=str(tmp_path / "checkpoint-3")), whole[12:])


def test_a_checkpoint_of_plain_trainer_warns_once(tmp_path):
    plain_trainer(tmp_path, **SAVING).train()
    with pytest.warns(UserWarning, match=r"has no surgery.pt and no aux_state_0.pt") as warned:
        surgery_trainer(tmp_path, **SAVING).train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert len(warned) == 1


def test_a_checkpoint_of_another_method_is_refused(tmp_path):
    surgery_trainer(tmp_path, **SAVING).train()
    with pytest.raises(ValueError, match="bloop"):
        surgery_trainer(tmp_path, method=gs.mixed(lam=0.5), **SAVING).train(
            resume_from_checkpoint=str(tmp_path / "checkpoint-3")
        )


def test_save_only_model_leaves_out_the_surgery(tmp_path):
    surgery_trainer(tmp_path, **SAVING, save_only_model=True).train()
    assert not list(tmp_path.glob("checkpoint-3/surgery.pt"))


def test_old_checkpoints_are_deleted_with_the_surgerys_files(tmp_path):
    surgery_trainer(tmp_path, **SAVING, save_total_limit=1).train()
    assert [folder.name for folder in tmp_path.iterdir()] == ["checkpoint-7"]


def test_a_second_call_of_train_starts_over(tmp_path):
    trainer = surgery_trainer(tmp_path)
    trainer.train()
    first = trainer.surgery
    trainer.train()
    assert trainer.surgery is not first
    assert trainer.surgery.state_dict()["steps"] == 6
