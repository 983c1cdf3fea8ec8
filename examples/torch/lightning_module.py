"""``regulariser.py`` as a LightningModule: manual optimisation, with accumulation, clipping and checkpoints.

    python examples/torch/lightning_module.py      (needs: pip install lightning)

With ``automatic_optimization = False``, Lightning leaves the backward pass and the step to you. It then refuses
``Trainer(accumulate_grad_batches=...)`` and ``Trainer(gradient_clip_val=...)``, so ``training_step`` does both by hand:
losses are divided by the number of micro-batches, and ``self.clip_gradients`` clips the direction after ``apply``.
``surgery.attach(optimizer)`` puts the average into the optimiser's state, which Lightning saves in its checkpoints.

With ``strategy="ddp"``, Lightning must know of each backward pass: give the losses as functions that call
``self.trainer.strategy.pre_backward(loss)`` before they return their loss.
"""

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

    def __init__(self, micro_batches: int = 2) -> None:
        super().__init__()
        self.micro_batches = micro_batches
        self.automatic_optimization = False
        self.network = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.surgery = gst.Surgery(self.network, gs.bloop(lam=0.02, rho=0.02))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return any optimiser, with the surgery attached."""
        optimizer = torch.optim.SGD(self.parameters(), lr=0.2)
        self.surgery.attach(optimizer)
        return optimizer

    def half_square(self) -> torch.Tensor:
        """Half the squared norm of the weights."""
        return 0.5 * sum(parameter.square().sum() for parameter in self.parameters())

    def training_step(self, batch: list[torch.Tensor], index: int) -> None:
        """Gather the gradients of one micro-batch; step after the last one, also at the end of an epoch."""
        images, labels = batch
        main, aux = cross_entropy(self.network(images), labels), self.half_square()
        self.surgery.backward(main / self.micro_batches, aux / self.micro_batches)
        self.log_dict({"main": main, "aux": aux})
        if (index + 1) % self.micro_batches and not self.trainer.is_last_batch:
            return
        self.surgery.apply()
        optimizer = self.optimizers()
        self.clip_gradients(optimizer, gradient_clip_val=10.0, gradient_clip_algorithm="norm")
        optimizer.step()
        optimizer.zero_grad()


lightning.seed_everything(0)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
order = torch.randperm(len(y))
train, test = order[:1297], order[1297:]
loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=32, shuffle=True)

model = Digits()
trainer = lightning.Trainer(max_epochs=15, logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(model, loader)
with torch.no_grad():
    accuracy = (model.network(x[test]).argmax(1) == y[test]).float().mean()
    main, aux = cross_entropy(model.network(x[train]), y[train]), model.half_square()
print(f"test accuracy {accuracy:.3f}, main {main:.3f}, aux {aux:.1f}")
