"""Distillation: a student learns from labels (main), and from a teacher's outputs (aux).

    python examples/torch/distillation.py

Both losses come from one forward pass of the student. The teacher has seen 1,297 images with their labels; the student
has labels for 100 of them.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy, kl_div

import gradsurgery as gs
import gradsurgery.torch as gst

torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
order = torch.randperm(len(y))
train, test = order[:1297], order[1297:]
labelled = train[:100]

teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.SGD(teacher.parameters(), lr=0.2)
for _ in range(30):
    for rows in train[torch.randperm(len(train))].split(64):
        cross_entropy(teacher(x[rows]), y[rows]).backward()
        optimizer.step()
        optimizer.zero_grad()
teacher.requires_grad_(False)

student = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
optimizer = torch.optim.SGD(student.parameters(), lr=0.2)
surgery = gst.Surgery(student, gs.bloop(lam=gs.relative(1.0), rho=0.05))
for _ in range(200):
    for rows in labelled[torch.randperm(len(labelled))].split(50):
        outputs, target = student(x[rows]), teacher(x[rows])
        main = cross_entropy(outputs, y[rows])
        aux = kl_div(outputs.log_softmax(1), target.log_softmax(1), log_target=True, reduction="batchmean")
        surgery.backward(main, aux)
        surgery.apply()
        optimizer.step()
        optimizer.zero_grad()

with torch.no_grad():
    outputs, target = student(x[test]), teacher(x[test])
    accuracy = (outputs.argmax(1) == y[test]).float().mean()
    aux = kl_div(outputs.log_softmax(1), target.log_softmax(1), log_target=True, reduction="batchmean")
print(f"test accuracy {accuracy:.3f}, main {cross_entropy(outputs, y[test]):.3f}, aux {aux:.3f}")
