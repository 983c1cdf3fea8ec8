"""Replay: one example in a hundred is an old one. It can be part of the batch, or a loss of its own.

    python examples/torch/replay.py

The base knows upright digits and is fine-tuned on digits that lie on their side. Every step has 99 new images (main)
and one old image (aux), whatever the method, so all rows cost the same forward and backward passes. The usual
replay is the mean over the batch of 100: a weighted sum with λ = 1 / 99.
"""

from collections.abc import Iterator
from copy import deepcopy

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import gradsurgery as gs
import gradsurgery.torch as gst

digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
turned = torch.rot90(x.view(-1, 8, 8), dims=(1, 2)).flatten(1)


def batches(rows: Tensor, size: int, epochs: int) -> Iterator[Tensor]:
    """Batches of rows, shuffled anew in each epoch."""
    for _ in range(epochs):
        yield from rows[torch.randperm(len(rows))].split(size)


def pretrain(seed: int) -> tuple[nn.Module, Tensor, Tensor]:
    """A network that knows upright digits, and the rows for training and for testing."""
    torch.manual_seed(seed)
    train, test = torch.randperm(len(y)).split([1297, 500])
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for rows in batches(train, size=64, epochs=15):
        cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, train, test


def fine_tune(method: gs.Method, model: nn.Module, train: Tensor, test: Tensor) -> list[float]:
    """The loss on new and on old images, and the accuracy on both, all on test images."""
    torch.manual_seed(0)
    model = deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    surgery = gst.Surgery(model, method)
    for new in batches(train, size=99, epochs=25):
        old = train[torch.randint(len(train), (1,))]
        surgery.backward(cross_entropy(model(turned[new]), y[new]), cross_entropy(model(x[old]), y[old]))
        surgery.apply()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        outputs = [model(images[test]) for images in (turned, x)]
        losses = [cross_entropy(each, y[test]) for each in outputs]
        accuracy = [(each.argmax(1) == y[test]).float().mean() for each in outputs]
        return [float(value) for value in losses + accuracy]


bases = [pretrain(seed) for seed in range(2)]


def measure(method: gs.Method) -> Tensor:
    """The mean over the seeds."""
    return torch.tensor([fine_tune(method, *base) for base in bases]).mean(0)


lams = (0.03, 0.1, 0.3)
alone = measure(gs.mixed(lam=0.0))
fronts = {
    "main alone": {},
    "usual replay": {1 / 99: measure(gs.mixed(lam=1 / 99))},
    "sum": {lam: measure(gs.mixed(lam=lam)) for lam in lams},
    "Bloop": {lam: measure(gs.bloop(lam=lam, rho=0.03)) for lam in lams},
}
for name, front in fronts.items():  # the lowest aux, if main may end 5 % worse than alone
    front[0.0] = alone
    best = min((lam for lam in front if front[lam][0] <= 1.05 * alone[0]), key=lambda lam: front[lam][1])
    main, aux, new, old = front[best]
    print(f"{name}, λ = {best:.2g}: main {main:.3f}, aux {aux:.3f}, accuracy on new {new:.3f}, on old {old:.3f}")
