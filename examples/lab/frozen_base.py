"""Fine-tuning with a frozen base, in PyTorch, with checkpoints in ``run.folder``.

    python examples/lab/frozen_base.py
    gradsurgery sweep examples/lab/frozen_base.py:frozen_base --set epochs=5

A base that was trained on the digits 0 to 4 stays frozen. A new layer and a new head learn all ten (main), and stay
close to their initial values (aux). A run that is killed continues from its last epoch and ends with the same numbers:
the checkpoint holds model, optimiser, surgery and the state of the random number generator.
"""

import os

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import gradsurgery.torch as gst
from gradsurgery import lab

digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
train, test = torch.arange(1297), torch.arange(1297, len(x))


def pretrained() -> nn.Module:
    """Return the base, trained on five of the ten digits."""
    torch.manual_seed(0)
    base, head = nn.Sequential(nn.Linear(64, 32), nn.ReLU()), nn.Linear(32, 5)
    optimizer = torch.optim.SGD([*base.parameters(), *head.parameters()], lr=0.5)
    known = train[y[train] < 5]
    for _ in range(100):
        cross_entropy(head(base(x[known])), y[known]).backward()
        optimizer.step()
        optimizer.zero_grad()
    return base.requires_grad_(False)


@lab.problem(
    main="cross-entropy",
    aux="squared distance to the start",
    settings={"epochs": 4, "learning_rate": 0.05},
    lams="relative:0.1:1:2log",
    rhos=[0.1],  # short runs need a fast average
    share_process=True,  # a run takes a second, and importing the libraries takes longer
)
def frozen_base(run):
    """Fine-tune a layer and a head on a frozen base."""
    base = pretrained()
    torch.manual_seed(run.seed)
    tuned = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    start = [parameter.detach().clone() for parameter in tuned.parameters()]
    optimizer = torch.optim.SGD(tuned.parameters(), lr=run.settings["learning_rate"], momentum=0.9)
    surgery = gst.Surgery(tuned, run.method)

    def main_loss(rows):
        return cross_entropy(tuned(base(x[rows])), y[rows])

    def aux_loss():
        return sum((now - then).square().sum() for now, then in zip(tuned.parameters(), start, strict=True))

    checkpoint, first_epoch = run.folder / "checkpoint.pt", 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        first_epoch = saved["epoch"]
        tuned.load_state_dict(saved["tuned"])
        optimizer.load_state_dict(saved["optimizer"])
        surgery.load_state_dict(saved["surgery"])
        torch.set_rng_state(saved["random"])

    for epoch in range(first_epoch, run.settings["epochs"]):
        for rows in train[torch.randperm(len(train))].split(64):
            surgery.backward(main_loss(rows), aux_loss())
            surgery.apply()
            optimizer.step()
            optimizer.zero_grad()
        run.progress = (epoch + 1) / run.settings["epochs"]
        with torch.no_grad():
            row = {"main_train": main_loss(train), "main_test": main_loss(test), "aux_train": aux_loss()}
            yield {"step": epoch + 1, "aux_test": row["aux_train"], **row}
        state = {
            "epoch": epoch + 1,
            "tuned": tuned.state_dict(),
            "optimizer": optimizer.state_dict(),
            "surgery": surgery.state_dict(),
            "random": torch.get_rng_state(),
        }
        torch.save(state, run.folder / "new.pt")
        os.replace(run.folder / "new.pt", checkpoint)  # a kill leaves the old checkpoint or the new one


if __name__ == "__main__":
    for recommendation in lab.recommend(lab.sweep(frozen_base, folder="runs", seeds=[0, 1]), allow=0.05):
        print(recommendation.text)
