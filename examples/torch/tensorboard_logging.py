"""``regulariser.py`` with a log for TensorBoard: both losses, and how much they conflict.

    python examples/torch/tensorboard_logging.py      (needs: pip install tensorboardX)
    tensorboard --logdir logs                         (needs: pip install tensorboard)

``surgery.diagnostics()`` has means over all steps since ``surgery.reset_means()``, which each point of the curve calls.
``measure=True`` adds cosines and the share of aux that was removed.
"""

import torch
from sklearn.datasets import load_digits
from tensorboardX import SummaryWriter
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
surgery = gst.Surgery(model, gs.bloop(lam=0.02, rho=0.02), measure=True)
writer = SummaryWriter("logs")


def half_square(model: nn.Module) -> torch.Tensor:
    """Half the squared norm of the weights: small weights make a smooth network."""
    return 0.5 * sum(parameter.square().sum() for parameter in model.parameters())


step = 0
for _ in range(15):
    for images, labels in loader:
        main, aux = surgery.backward(cross_entropy(model(images), labels), half_square(model))
        surgery.apply()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step % 10 == 0:
            writer.add_scalar("loss/main", main, step)
            writer.add_scalar("loss/aux", aux, step)
            for name, value in surgery.diagnostics().items():
                writer.add_scalar(f"surgery/{name}", value, step)
            surgery.reset_means()
writer.close()

print(gst.explain(surgery))
