"""Distillation: a student learns from labels (main), and from a teacher's outputs (aux).

    python examples/torch/distillation.py

Both losses come from one forward pass of the student. The teacher has seen 1,297 images with their labels; the student
has labels for 100 of them.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div

import gradsurgery as gs
import gradsurgery.torch as gst

digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)


def train_teacher(seed: int) -> tuple[nn.Module, Tensor, Tensor]:
    """A teacher that has seen all labels, the 100 rows for the student, and those for testing."""
    torch.manual_seed(seed)
    train, test = torch.randperm(len(y)).split([1297, 500])
    teacher = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(teacher.parameters(), lr=0.2)
    for _ in range(30):
        for rows in train[torch.randperm(len(train))].split(64):
            cross_entropy(teacher(x[rows]), y[rows]).backward()
            optimizer.step()
            optimizer.zero_grad()
    return teacher.requires_grad_(False), train[:100], test


def losses(student: nn.Module, teacher: nn.Module, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy with the labels, and divergence from the teacher."""
    outputs, target = student(x[rows]), teacher(x[rows])
    aux = kl_div(outputs.log_softmax(1), target.log_softmax(1), log_target=True, reduction="batchmean")
    return cross_entropy(outputs, y[rows]), aux


def distil(method: gs.Method, teacher: nn.Module, labelled: Tensor, test: Tensor) -> list[float]:
    """Both losses and the accuracy of the student, on test images."""
    torch.manual_seed(0)
    student = nn.Sequential(nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
    surgery = gst.Surgery(student, method)
    for _ in range(100):
        for rows in labelled[torch.randperm(len(labelled))].split(50):
            surgery.backward(*losses(student, teacher, rows))
            surgery.apply()
            optimizer.step()
            optimizer.zero_grad()
    with torch.no_grad():
        accuracy = (student(x[test]).argmax(1) == y[test]).float().mean()
        return [float(value) for value in (*losses(student, teacher, test), accuracy)]


teachers = [train_teacher(seed) for seed in range(3)]


def measure(method: gs.Method) -> Tensor:
    """The mean over the seeds."""
    return torch.tensor([distil(method, *teacher) for teacher in teachers]).mean(0)


lams = (1.0, 3.0, 10.0)
alone = measure(gs.mixed(lam=0.0))
fronts = {
    "main alone": {},
    "sum": {lam: measure(gs.mixed(lam=lam)) for lam in lams},
    "Bloop": {lam: measure(gs.bloop(lam=lam, rho=0.05)) for lam in lams},
}
for name, front in fronts.items():  # the lowest main: a teacher is a means to it
    front[0.0] = alone
    best = min(front, key=lambda lam: front[lam][0])
    main, aux, accuracy = front[best]
    print(f"{name}, λ = {best:g}: main {main:.3f}, aux {aux:.3f}, accuracy {accuracy:.3f}")
