"""``regulariser.py`` with Hugging Face Accelerate: the same script for one process or several.

    python examples/torch/accelerate_loop.py      (needs: pip install accelerate)
    ACCELERATE_USE_CPU=1 torchrun --nproc-per-node=2 examples/torch/accelerate_loop.py

``surgery.backward`` replaces ``accelerator.backward``, and ``surgery.apply`` follows it. The surgery knows the
accelerator, so both are called for each micro-batch inside ``accelerator.accumulate``: losses are scaled and divided as
``accelerator.backward`` would do, and ``apply`` acts on the last micro-batch. Make the ``Surgery`` after
``accelerator.prepare``, which may wrap the model in DistributedDataParallel; for the same reason the losses are
functions, as in ``ddp.py``. ``surgery.attach(optimizer)`` lets ``accelerator.save_state`` save the average too.
"""

from functools import partial

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import gradsurgery as gs
import gradsurgery.torch as gst


def main_loss(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of a batch, with a forward pass of its own."""
    return cross_entropy(model(images), labels)


def aux_loss(model: nn.Module) -> torch.Tensor:
    """Half the squared norm of the weights."""
    return 0.5 * sum(parameter.square().sum() for parameter in model.parameters())


torch.manual_seed(0)
accelerator = Accelerator(gradient_accumulation_steps=2)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
order = torch.randperm(len(y))
train, test = order[:1297], order[1297:]
loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=32 // accelerator.num_processes, shuffle=True)

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
surgery = gst.Surgery(model, gs.bloop(lam=0.02, rho=0.02), accelerator=accelerator)
surgery.attach(optimizer)

for _ in range(15):
    for images, labels in loader:
        with accelerator.accumulate(model):
            surgery.backward(partial(main_loss, model, images, labels), partial(aux_loss, model))
            surgery.apply()
            optimizer.step()
            optimizer.zero_grad()

x, y = x.to(accelerator.device), y.to(accelerator.device)
with torch.no_grad():
    accuracy = (model(x[test]).argmax(1) == y[test]).float().mean()
    main, aux = main_loss(model, x[train], y[train]), aux_loss(model)
accelerator.print(f"test accuracy {accuracy:.3f}, main {main:.3f}, aux {aux:.1f}")
accelerator.end_training()
