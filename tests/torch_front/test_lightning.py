"""Lightning: checkpoints carry the attached surgery, and DDP matches one process or is refused."""

import warnings
from concurrent.futures import ProcessPoolExecutor

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.torch_front.test_state import assert_equal_states
from tests.torch_front.workers import fork_server

lightning = pytest.importorskip("lightning")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

X = torch.randn(16, 4, generator=torch.Generator().manual_seed(0))
LOADER = DataLoader(TensorDataset(X), batch_size=4)


class Module(lightning.LightningModule):
    """A small network trained by surgery.

    Args:
        form: "tensors", "functions", or "announced": functions that notify Lightning before their backward pass.
    """

    def __init__(self, form="tensors"):
        super().__init__()
        torch.manual_seed(0)
        self.automatic_optimization, self.form = False, form
        self.network = torch.nn.Linear(4, 2)
        self.surgery = gst.Surgery(self.network.parameters(), gs.bloop(lam=0.5, rho=0.3))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=0.1)
        self.surgery.attach(optimizer)
        return optimizer

    def training_step(self, batch, index):
        x = batch[0][self.global_rank :: self.trainer.world_size]  # each process has its share of every batch

        def main():
            return announce(self.network(x).square().mean())

        def aux():
            return announce((self.network(x) - 1).pow(4).mean())

        def announce(loss):
            if self.form == "announced":
                self.trainer.strategy.pre_backward(loss)
            return loss

        self.surgery.backward(*([main(), aux()] if self.form == "tensors" else [main, aux]))
        self.surgery.apply()
        optimizer = self.optimizers()
        optimizer.step()
        optimizer.zero_grad()


def fit(module, epochs, folder, checkpoint=None, **options):
    trainer = lightning.Trainer(
        max_epochs=epochs, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, accelerator="cpu", default_root_dir=folder, **options,
    )  # fmt: skip
    trainer.fit(module, LOADER, ckpt_path=checkpoint)
    return trainer


def test_a_run_resumes_from_a_checkpoint_of_lightning(tmp_path):
    straight, resumed = Module(), Module()
    fit(straight, 2, tmp_path)
    fit(Module(), 1, tmp_path).save_checkpoint(tmp_path / "run.ckpt")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "the state that the optimiser loads")
        fit(resumed, 2, tmp_path, tmp_path / "run.ckpt")
    assert torch.equal(resumed.network.weight, straight.network.weight)
    assert_equal_states(resumed.surgery.state_dict(), straight.surgery.state_dict())


def fit_in_two_processes(form, folder):
    """The weight of the network after an epoch under DDP, or why it was refused."""
    module = Module(form)
    try:
        fit(module, 1, folder, strategy="ddp_fork", devices=2, use_distributed_sampler=False)
    except Exception as error:
        return str(error)
    return module.network.weight.detach()


def test_under_ddp_announced_functions_match_one_process_and_others_match_or_are_refused(tmp_path):
    alone = Module()
    fit(alone, 1, tmp_path)
    with ProcessPoolExecutor(1, mp_context=fork_server("lightning")) as process:  # Lightning is slow to import
        results = {form: process.submit(fit_in_two_processes, form, tmp_path) for form in ("announced", "functions")}
    for form, result in results.items():
        if isinstance(result.result(), str):
            assert form != "announced", result.result()
            assert "DistributedDataParallel has not synchronised them" in result.result()
        else:
            torch.testing.assert_close(result.result(), alone.network.weight.detach(), rtol=1e-5, atol=1e-6)
