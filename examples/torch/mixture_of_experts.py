"""Mixture of experts: classify (main), with the same load for every expert (aux).

    python examples/torch/mixture_of_experts.py

Each input goes to one of eight experts. Left alone, the router sends most inputs to a few of them; the balancing loss
is that of the Switch Transformer. The layer returns it, so that it can be given to the surgery.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

import gradsurgery as gs
import gradsurgery.torch as gst

EXPERTS = 8


class Mixture(nn.Module):
    """Eight experts of two layers, and a router that sends each input to one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, EXPERTS)
        self.first = nn.Parameter(torch.randn(EXPERTS, 16, 16) / 4)
        self.second = nn.Parameter(torch.randn(EXPERTS, 16, 4) / 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The outputs, the balancing loss, which is 1 at best, and the share of inputs that each expert got."""
        gates = self.router(x).softmax(1)
        gate, chosen = gates.max(1)
        hidden = torch.einsum("ni,eih->neh", x, self.first).relu()  # all experts: quicker than a loop at this size
        outputs = torch.einsum("neh,eho->neo", hidden, self.second)[torch.arange(len(x)), chosen]
        load = one_hot(chosen, EXPERTS).float().mean(0)
        return gate[:, None] * outputs, EXPERTS * (load * gates.mean(0)).sum(), load


def draw_data() -> tuple[Tensor, Tensor]:
    """Inputs from 16 clusters, the first 16 times as frequent as the last, each with its own rule for the label."""
    cluster = torch.multinomial(1 / torch.arange(1.0, 17.0), 6000, replacement=True)
    centres, rules, noise = torch.randn(16, 16), torch.randn(16, 16, 4), torch.randn(6000, 16)
    labels = torch.einsum("ni,nio->no", noise, rules[cluster]).argmax(1)
    return 1.5 * centres[cluster] + noise, labels


def fit(method: gs.Method, seed: int) -> list[float]:
    """Both losses, the accuracy, and the load of the busiest expert (1 if all are alike), on test data."""
    torch.manual_seed(seed)
    x, y = draw_data()
    model = Mixture()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    surgery = gst.Surgery(model, method)
    for _ in range(400):
        rows = torch.randint(4000, (128,))
        outputs, balance, _ = model(x[rows])
        surgery.backward(cross_entropy(outputs, y[rows]), balance)
        surgery.apply()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        outputs, balance, load = model(x[4000:])
        accuracy = (outputs.argmax(1) == y[4000:]).float().mean()
        return [float(value) for value in (cross_entropy(outputs, y[4000:]), balance, accuracy, EXPERTS * load.max())]


def measure(method: gs.Method) -> Tensor:
    """The mean over two seeds."""
    return torch.tensor([fit(method, seed) for seed in range(2)]).mean(0)


lams = (0.1, 0.3, 1.0)
alone = measure(gs.mixed(lam=0.0))
fronts = {
    "main alone": {},
    "sum": {lam: measure(gs.mixed(lam=lam)) for lam in lams},
    "Bloop": {lam: measure(gs.bloop(lam=lam, rho=0.1)) for lam in lams},
}
for name, front in fronts.items():  # the lowest aux, if main may end 5 % worse than alone
    front[0.0] = alone
    best = min((lam for lam in front if front[lam][0] <= 1.05 * alone[0]), key=lambda lam: front[lam][1])
    main, aux, accuracy, load = front[best]
    print(f"{name}, λ = {best:g}: main {main:.3f}, aux {aux:.3f}, accuracy {accuracy:.3f}, busiest {load:.2f}")
