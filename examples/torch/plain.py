"""The plain training loop: a small network learns to classify digits, with a second loss that keeps its weights small.

    python examples/torch/plain.py

The usual weighted sum: main (cross-entropy) gets worse as aux (half the squared weights) gets better.
``regulariser.py`` is the same loop with three lines changed.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
order = torch.randperm(len(y))
train, test = order[:1297], order[1297:]
loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=64, shuffle=True)

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)


def half_square(model: nn.Module) -> torch.Tensor:
    """Half the squared norm of the weights: small weights make a smooth network."""
    return 0.5 * sum(parameter.square().sum() for parameter in model.parameters())


for _ in range(15):
    for images, labels in loader:
        main = cross_entropy(model(images), labels)
        aux = half_square(model)
        (main + 0.02 * aux).backward()
        optimizer.step()
        optimizer.zero_grad()

with torch.no_grad():
    accuracy = (model(x[test]).argmax(1) == y[test]).float().mean()
    main, aux = cross_entropy(model(x[train]), y[train]), half_square(model)
print(f"test accuracy {accuracy:.3f}, main {main:.3f}, aux {aux:.1f}")
