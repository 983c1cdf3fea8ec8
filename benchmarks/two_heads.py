"""Two heads on one trunk: the summed loss needs one backward pass through the trunk, surgery needs two."""

import torch
from torch import nn

import gradsurgery as gs
import gradsurgery.torch as gst
from benchmarks.harness import Measure, Plan, interleaved, ratios


def measure(plan: Plan) -> list[Measure]:
    """The lines of the table."""
    width = 32 if plan.quick else 1024
    trunk = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(6)))
    heads = nn.ModuleList([nn.Linear(width, 10), nn.Linear(width, 10)])
    model = nn.ModuleList([trunk, heads])
    inputs = torch.randn(256, width)
    surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.1))

    def losses() -> list[torch.Tensor]:
        features = trunk(inputs)
        return [head(features).square().mean() for head in heads]

    def summed() -> None:
        main, aux = losses()
        (main + 0.1 * aux).backward()
        model.zero_grad()

    def twice() -> None:
        main, aux = losses()
        main.backward(retain_graph=True)
        (0.1 * aux).backward()
        model.zero_grad()

    def bloop() -> None:
        surgery.backward(*losses())
        surgery.apply()
        model.zero_grad()

    seconds = interleaved({"summed": summed, "twice": twice, "bloop": bloop}, plan.repetitions)
    name, note = "torch, two heads on a trunk", "no optimiser; the second backward pass takes the time"
    return [
        Measure(f"{name}: bloop", ratios(seconds, "bloop", "summed"), "summed loss", note=note),
        Measure(f"{name}: two backward passes alone", ratios(seconds, "twice", "summed"), "summed loss"),
    ]
