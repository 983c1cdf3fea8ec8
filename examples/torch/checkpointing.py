"""``regulariser.py`` with checkpoints: stop after any epoch, run the script again, and it continues bit for bit.

    python examples/torch/checkpointing.py

``surgery.attach(optimizer)`` puts the average into ``optimizer.state_dict()``, so that whatever saves the optimiser
saves the surgery. Attach before you load. Start from scratch by deleting checkpoint.pt.
"""

import os
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import gradsurgery as gs
import gradsurgery.torch as gst

torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
order = torch.randperm(len(y))
train, test = order[:1297], order[1297:]
loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=64, shuffle=True)

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
surgery = gst.Surgery(model, gs.bloop(lam=0.02, rho=0.02))
surgery.attach(optimizer)


def half_square(model: nn.Module) -> torch.Tensor:
    """Half the squared norm of the weights: small weights make a smooth network."""
    return 0.5 * sum(parameter.square().sum() for parameter in model.parameters())


checkpoint, first_epoch = Path("checkpoint.pt"), 0
if checkpoint.exists():
    saved = torch.load(checkpoint)
    first_epoch = saved["epoch"]
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])  # and the surgery
    torch.set_rng_state(saved["random"])
    print(f"continuing after epoch {first_epoch}")

for epoch in range(first_epoch, 15):
    for images, labels in loader:
        surgery.backward(cross_entropy(model(images), labels), half_square(model))
        surgery.apply()
        optimizer.step()
        optimizer.zero_grad()
    state = {
        "epoch": epoch + 1,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "random": torch.get_rng_state(),  # for dropout, augmentation and the order of the batches
    }
    torch.save(state, "new.pt")
    os.replace("new.pt", checkpoint)  # a kill leaves the old checkpoint or the new one

with torch.no_grad():
    accuracy = (model(x[test]).argmax(1) == y[test]).float().mean()
    main, aux = cross_entropy(model(x[train]), y[train]), half_square(model)
print(f"test accuracy {accuracy:.3f}, main {main:.3f}, aux {aux:.1f}")
