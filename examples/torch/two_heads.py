"""Two heads on a trunk: recognise a digit (main), and whether it is odd (aux).

    python examples/torch/two_heads.py

The losses conflict in the trunk alone, so the surgery is on the trunk. The heads are outside it, so each gets the plain
gradient of its loss, whatever the weight of aux in the trunk.
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

trunk = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
digit_head, parity_head = nn.Linear(64, 10), nn.Linear(64, 2)
model = nn.ModuleList([trunk, digit_head, parity_head])
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
surgery = gst.Surgery(trunk, gs.bloop(lam=gs.relative(0.3), rho=0.05))

for _ in range(15):
    for rows in train[torch.randperm(len(train))].split(64):
        features = trunk(x[rows])  # one forward pass of the trunk serves both losses
        main = cross_entropy(digit_head(features), y[rows])
        aux = cross_entropy(parity_head(features), y[rows] % 2)
        surgery.backward(main, aux)
        surgery.apply()
        optimizer.step()
        optimizer.zero_grad()

with torch.no_grad():
    features = trunk(x[test])
    main = (digit_head(features).argmax(1) == y[test]).float().mean()
    aux = (parity_head(features).argmax(1) == y[test] % 2).float().mean()
print(f"test accuracy: main {main:.3f}, aux {aux:.3f}")
