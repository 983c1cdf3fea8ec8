"""Unlearning: forget one class (aux), and stay as good at all others (main).

    python examples/torch/unlearning.py

The network knows ten digits and has to forget the 3: its outputs for a 3 should be those of a guess. Training goes on
with the other digits, so that they are not lost on the way.
"""

from collections.abc import Iterator
from copy import deepcopy
from math import log

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import gradsurgery as gs
import gradsurgery.torch as gst

digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)


def batches(rows: Tensor, epochs: int) -> Iterator[Tensor]:
    """Batches of 64 rows, shuffled anew in each epoch."""
    for _ in range(epochs):
        yield from rows[torch.randperm(len(rows))].split(64)


def pretrain(seed: int) -> tuple[nn.Module, Tensor, Tensor]:
    """A network that knows all digits, and the rows for training and for testing."""
    torch.manual_seed(seed)
    train, test = torch.randperm(len(y)).split([1297, 500])
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for rows in batches(train, epochs=15):
        cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, train, test


def losses(model: nn.Module, retain: Tensor, forget: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy on the digits to retain, and the divergence of the outputs for a 3 from a uniform guess."""
    return cross_entropy(model(x[retain]), y[retain]), -model(x[forget]).log_softmax(1).mean() - log(10)


def unlearn(method: gs.Method, model: nn.Module, train: Tensor, test: Tensor) -> list[float]:
    """Both losses, the accuracy at the other digits and the confidence at 3s, on test images."""
    torch.manual_seed(0)
    model = deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    surgery = gst.Surgery(model, method)
    forget = train[y[train] == 3]
    for retain in batches(train[y[train] != 3], epochs=5):
        surgery.backward(*losses(model, retain, forget[torch.randint(len(forget), (16,))]))
        surgery.apply()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        retain, forget = test[y[test] != 3], test[y[test] == 3]
        accuracy = (model(x[retain]).argmax(1) == y[retain]).float().mean()
        confidence = model(x[forget]).softmax(1).amax(1).mean()
        return [float(value) for value in (*losses(model, retain, forget), accuracy, confidence)]


bases = [pretrain(seed) for seed in range(3)]


def measure(method: gs.Method) -> Tensor:
    """The mean over the seeds."""
    return torch.tensor([unlearn(method, *base) for base in bases]).mean(0)


lams = (0.01, 0.03, 0.1, 0.3, 1.0)
alone = measure(gs.mixed(lam=0.0))
fronts = {
    "main alone": {},
    "sum": {lam: measure(gs.mixed(lam=lam)) for lam in lams},
    "Bloop": {lam: measure(gs.bloop(lam=lam, rho=0.1)) for lam in lams},
}
for name, front in fronts.items():  # the lowest aux, if main may end 5 % worse than alone
    front[0.0] = alone
    best = min((lam for lam in front if front[lam][0] <= 1.05 * alone[0]), key=lambda lam: front[lam][1])
    main, aux, accuracy, confidence = front[best]
    print(f"{name}, λ = {best:g}: main {main:.3f}, aux {aux:.2f}, ", end="")
    print(f"accuracy {accuracy:.3f}, confidence {confidence:.2f}")
