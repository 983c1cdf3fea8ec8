"""Fine-tuning without forgetting: learn a new task (main), and keep the base model's outputs on old data (aux).

    python examples/torch/fine_tuning.py

The base knows upright digits. It is fine-tuned on digits that lie on their side. The auxiliary loss is the
Kullback-Leibler divergence from the base on a few old images; it needs no labels.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy, kl_div

import gradsurgery as gs
import gradsurgery.torch as gst

torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
order = torch.randperm(len(y))
train, test = order[:1297], order[1297:]
turned = torch.rot90(x.view(-1, 8, 8), dims=(1, 2)).flatten(1)
kept = train[:100]  # old images that are still available

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
for _ in range(15):  # pretraining, the plain way
    for rows in train[torch.randperm(len(train))].split(64):
        cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        optimizer.zero_grad()


def accuracy(images: torch.Tensor) -> float:
    """The accuracy on the test images."""
    with torch.no_grad():
        return (model(images[test]).argmax(1) == y[test]).float().mean().item()


print(f"before: new {accuracy(turned):.3f}, old {accuracy(x):.3f}")

with torch.no_grad():
    target = model(x[kept]).log_softmax(1)  # the base model's outputs
surgery = gst.Surgery(model, gs.bloop(lam=gs.relative(1.0), rho=0.05))
for _ in range(15):
    for rows in train[torch.randperm(len(train))].split(64):
        main = cross_entropy(model(turned[rows]), y[rows])
        aux = kl_div(model(x[kept]).log_softmax(1), target, log_target=True, reduction="batchmean")
        surgery.backward(main, aux)
        surgery.apply()
        optimizer.step()
        optimizer.zero_grad()

print(f"after: new {accuracy(turned):.3f}, old {accuracy(x):.3f}")
