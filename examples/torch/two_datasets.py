"""Two datasets: a large one (main), and a small one that is learned as far as main allows (aux).

    python examples/torch/two_datasets.py

The network learns 1,197 ordinary images of digits, and 100 mirrored ones. Each step draws one batch from each dataset.
The small dataset ends sooner than the large one; it then starts over, shuffled anew.
"""

from collections.abc import Iterator

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import gradsurgery as gs
import gradsurgery.torch as gst

torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
mirrored = x.view(-1, 8, 8).flip(2).flatten(1)
order = torch.randperm(len(y))
large, small, test = order[:1197], order[1197:1297], order[1297:]
main_loader = DataLoader(TensorDataset(x[large], y[large]), batch_size=64, shuffle=True)
aux_loader = DataLoader(TensorDataset(mirrored[small], y[small]), batch_size=16, shuffle=True)

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
surgery = gst.Surgery(model, gs.bloop(lam=gs.relative(1.0), rho=0.05))


def endless(loader: DataLoader) -> Iterator[list[Tensor]]:
    """Batch after batch; itertools.cycle would repeat the order of the first epoch."""
    while True:
        yield from loader


def loss(images: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of a batch."""
    return cross_entropy(model(images), labels)


aux_batches = endless(aux_loader)
for _ in range(15):
    for main_batch in main_loader:
        surgery.backward(loss(*main_batch), loss(*next(aux_batches)))
        surgery.apply()
        optimizer.step()
        optimizer.zero_grad()

with torch.no_grad():
    main = (model(x[test]).argmax(1) == y[test]).float().mean()
    aux = (model(mirrored[test]).argmax(1) == y[test]).float().mean()
print(f"test accuracy: main {main:.3f}, aux {aux:.3f}")
