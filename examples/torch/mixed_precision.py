"""``regulariser.py`` in mixed precision: autocast and a ``GradScaler``.

    python examples/torch/mixed_precision.py

``surgery.backward`` takes the scaled losses. ``surgery.apply(scaler=scaler)`` keeps its average unscaled and leaves
``.grad`` scaled, so that the rest of the loop is standard PyTorch. (On a GPU, replace "cpu"
by "cuda" and move the model and the data there.)
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import gradsurgery as gs
import gradsurgery.torch as gst

torch.manual_seed(0)
digits = load_digits()
x, y = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
order = torch.randperm(len(y))
train, test = order[:1297], order[1297:]
loader = DataLoader(TensorDataset(x[train], y[train]), batch_size=64, shuffle=True)

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
surgery = gst.Surgery(model, gs.bloop(lam=0.02, rho=0.02))
scaler = torch.amp.GradScaler("cpu", growth_interval=20)  # soon overflows in float16: it skips that step


def half_square(model: nn.Module) -> torch.Tensor:
    """Half the squared norm of the weights: small weights make a smooth network."""
    return 0.5 * sum(parameter.square().sum() for parameter in model.parameters())


for _ in range(15):
    for images, labels in loader:
        with torch.autocast("cpu", torch.float16):
            main = cross_entropy(model(images), labels)
        aux = half_square(model)
        surgery.backward(scaler.scale(main), scaler.scale(aux))
        surgery.apply(scaler=scaler)
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=10.0)  # clips the direction
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

with torch.no_grad():
    accuracy = (model(x[test]).argmax(1) == y[test]).float().mean()
    main, aux = cross_entropy(model(x[train]), y[train]), half_square(model)
print(f"test accuracy {accuracy:.3f}, main {main:.3f}, aux {aux:.1f}, loss scale {scaler.get_scale():.0f}")
