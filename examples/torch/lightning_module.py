"""``bloop.py`` as a LightningModule: manual optimisation, and the surgery in the checkpoint.

    python examples/torch/lightning_module.py      (needs: pip install lightning)

With ``automatic_optimization = False``, Lightning leaves the backward pass and the step to you. With
``strategy="ddp"``, Lightning must know of each backward pass: give the losses as functions that call
``self.trainer.strategy.pre_backward(loss)`` before they return their loss.
"""

from typing import Any

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import gradsurgery as gs
import gradsurgery.torch as gst


class Digits(lightning.LightningModule):
    """A small network that classifies digits with small weights."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.surgery = gst.Surgery(self.network.parameters(), gs.bloop(lam=0.02, rho=0.02))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return any optimiser."""
        return torch.optim.SGD(self.parameters(), lr=0.2)

    def half_square(self) -> torch.Tensor:
        """Half the squared norm of the weights."""
        return 0.5 * sum(parameter.square().sum() for parameter in self.parameters())

    def training_step(self, batch: list[torch.Tensor]) -> None:
        """Do one step by hand."""
        images, labels = batch
        main, aux = self.surgery.backward(cross_entropy(self.network(images), labels), self.half_square())
        self.surgery.apply()
        optimizer = self.optimizers()
        optimizer.step()
        optimizer.zero_grad()
        self.log_dict({"main": main, "aux": aux})

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Save the average: it is training state, like the moments of the optimiser."""
        checkpoint["surgery"] = self.surgery.state_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Load the average."""
        self.surgery.load_state_dict(checkpoint["surgery"])


lightning.seed_everything(0)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
order = torch.randperm(len(y))
train, test = order[:1297], order[1297:]
loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=64, shuffle=True)

model = Digits()
trainer = lightning.Trainer(max_epochs=15, logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(model, loader)
with torch.no_grad():
    accuracy = (model.network(x[test]).argmax(1) == y[test]).float().mean()
    main, aux = cross_entropy(model.network(x[train]), y[train]), model.half_square()
print(f"test accuracy {accuracy:.3f}, main {main:.3f}, aux {aux:.1f}")
