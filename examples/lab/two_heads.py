"""Two heads on a trunk, in PyTorch: recognise a digit (main), and whether it is odd (aux).

    python examples/lab/two_heads.py
    gradsurgery sweep examples/lab/two_heads.py:two_heads --lams relative:0.1:1:3log

The lab needs the decorator, the ``yield``, and the two lines at the end. The rest is an ordinary training function.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import gradsurgery.torch as gst
from gradsurgery import lab


@lab.problem(
    main="cross-entropy of the digit",
    aux="cross-entropy of its parity",
    settings={"epochs": 5, "learning_rate": 0.2, "batch": 64},
    lams="relative:0.1:1:2log",
    rhos=[0.1],  # short runs need a fast average
    share_process=True,  # a run takes a second, and importing the libraries takes longer
)
def two_heads(run):
    """A digit and its parity, from one trunk."""
    torch.manual_seed(run.seed)
    digits = load_digits()
    x, digit = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    parity = digit % 2
    train, test = torch.arange(1297), torch.arange(1297, len(x))

    trunk = nn.Sequential(nn.Linear(64, 32), nn.ReLU())
    heads = nn.ModuleList([nn.Linear(32, 10), nn.Linear(32, 2)])
    parameters = [*trunk.parameters(), *heads.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=run.settings["learning_rate"])
    surgery = gst.Surgery(parameters, run.method)

    def losses(rows):
        features = trunk(x[rows])
        return cross_entropy(heads[0](features), digit[rows]), cross_entropy(heads[1](features), parity[rows])

    for epoch in range(run.settings["epochs"]):
        for rows in train[torch.randperm(len(train))].split(run.settings["batch"]):
            surgery.backward(*losses(rows))
            surgery.apply()
            optimizer.step()
            optimizer.zero_grad()
        run.progress = (epoch + 1) / run.settings["epochs"]
        with torch.no_grad():
            (main_train, aux_train), (main_test, aux_test) = losses(train), losses(test)
        yield {
            "step": epoch + 1,
            "main_train": main_train,
            "aux_train": aux_train,
            "main_test": main_test,
            "aux_test": aux_test,
        }


if __name__ == "__main__":
    for recommendation in lab.recommend(lab.sweep(two_heads, folder="runs", seeds=[0, 1]), allow=0.05):
        print(recommendation.text)
