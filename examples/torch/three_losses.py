"""Three ranked losses: recognise a digit (main), whether it is odd (first aux), with small weights (second aux).

    python examples/torch/three_losses.py

``lam`` has one weight for each auxiliary loss, most important first. The first aux may not disturb main; the second may
disturb neither main nor the first aux. So there are two averages: of main's gradient, and of the first aux's.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import gradsurgery as gs
import gradsurgery.torch as gst

torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
order = torch.randperm(len(y))
train, test = order[:1297], order[1297:]

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 12))  # ten digits, then even and odd
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
surgery = gst.Surgery(model, gs.bloop(lam=(gs.relative(0.5), gs.relative(0.2)), rho=0.05))


def half_square(model: nn.Module) -> torch.Tensor:
    """Half the squared norm of the weights."""
    return 0.5 * sum(parameter.square().sum() for parameter in model.parameters())


for _ in range(15):
    for rows in train[torch.randperm(len(train))].split(64):
        outputs = model(x[rows])
        main = cross_entropy(outputs[:, :10], y[rows])
        first = cross_entropy(outputs[:, 10:], y[rows] % 2)
        second = half_square(model)
        surgery.backward(main, first, second)
        surgery.apply()
        optimizer.step()
        optimizer.zero_grad()

with torch.no_grad():
    outputs = model(x[test])
    digit = (outputs[:, :10].argmax(1) == y[test]).float().mean()
    parity = (outputs[:, 10:].argmax(1) == y[test] % 2).float().mean()
print(f"test accuracy: main {digit:.3f}, first {parity:.3f}; second {half_square(model):.1f}")
