"""``regulariser.py`` on two processes with DistributedDataParallel: the losses are given as functions.

    torchrun --nproc-per-node=2 examples/torch/ddp.py

DistributedDataParallel synchronises one backward pass for each forward pass. So give ``surgery.backward`` functions: it
calls them in turn, forward, backward, forward, backward. Both processes end with the same network.
"""

from functools import partial

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import gradsurgery as gs
import gradsurgery.torch as gst


def main_loss(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The cross-entropy of a batch, with a forward pass of its own."""
    return cross_entropy(model(images), labels)


def aux_loss(model: nn.Module) -> torch.Tensor:
    """Half the squared norm of the weights."""
    return 0.5 * sum(parameter.square().sum() for parameter in model.parameters())


dist.init_process_group("gloo")
torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
order = torch.randperm(len(y))
train, test = order[:1297], order[1297:]
dataset = TensorDataset(x[train], y[train])
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, batch_size=32, sampler=sampler)  # 64 over two processes

model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
surgery = gst.Surgery(model, gs.bloop(lam=0.02, rho=0.02))

for epoch in range(15):
    sampler.set_epoch(epoch)
    for images, labels in loader:
        surgery.backward(partial(main_loss, model, images, labels), partial(aux_loss, model))
        surgery.apply()
        optimizer.step()
        optimizer.zero_grad()

with torch.no_grad():
    accuracy = (model(x[test]).argmax(1) == y[test]).float().mean()
    main, aux = main_loss(model, x[train], y[train]), aux_loss(model)
print(f"rank {dist.get_rank()}: test accuracy {accuracy:.3f}, main {main:.6f}, aux {aux:.6f}")
dist.destroy_process_group()
