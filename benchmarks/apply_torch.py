"""``apply()`` of bloop in PyTorch, eager and compiled, compared with its memory traffic and with TorchJD."""

import math
import time

import torch
from torchjd.aggregation import MGDA, PCGrad, UPGrad

import gradsurgery as gs
import gradsurgery.torch as gst
from benchmarks.harness import Action, Measure, Plan, in_place_add, interleaved, ratios

WORDS = 8
"""Words moved for each parameter: each pass reads three vectors, and the second writes two."""


def measure(plan: Plan) -> list[Measure]:
    """The lines of the table."""
    shapes = plan.shapes()
    gradients = [[torch.randn(shape) for shape in shapes] for _ in range(2)]
    rivals = {
        "floor": in_place_add(WORDS * sum(map(math.prod, shapes))),
        "eager": applying(gradients, compiled=False),
    }
    start = time.perf_counter()
    rivals["compiled"] = applying(gradients, compiled=True)
    for _ in range(2):
        rivals["compiled"]()()
    compiling = time.perf_counter() - start
    for aggregator in (PCGrad(), MGDA(), UPGrad()):
        rivals[f"TorchJD {type(aggregator).__name__}"] = aggregating(gradients, aggregator)
    seconds = interleaved(rivals, plan.repetitions)
    return [
        Measure("torch: apply(), compiled", ratios(seconds, "compiled", "floor"), "traffic", at_most=1.35),
        Measure("torch: compilation", [compiling], "seconds", at_most=30),
        Measure("torch: apply(), eager", ratios(seconds, "eager", "floor"), "traffic", at_most=1.9),
        *(
            Measure(f"torch: {name} / our {ours} apply()", ratios(seconds, name, ours), "times", at_least=8)
            for ours in ("compiled", "eager")
            for name in rivals
            if name.startswith("TorchJD")
        ),
        Measure("torch: gradsurgery, eager / our compiled apply()", ratios(seconds, "eager", "compiled"), "times"),
    ]


def applying(gradients: list[list[torch.Tensor]], *, compiled: bool, method: gs.Method | None = None) -> Action:
    """``apply()`` on gradients as ``backward`` gathers them."""
    parameters = [torch.nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients[0]]
    surgery = gst.Surgery(parameters, method or gs.bloop(lam=0.1), compile=compiled)
    copies = [[gradient.clone() for gradient in loss] for loss in gradients]  # apply() writes over them

    def prepare() -> Action:
        for parameter in parameters:
            parameter.grad = None
        surgery._gatherer.gradients = [list(loss) for loss in copies]
        return surgery.apply

    return prepare


def aggregating(gradients: list[list[torch.Tensor]], aggregator: torch.nn.Module) -> Action:
    """The direction by TorchJD: build a matrix with a row for each loss, aggregate it, and split the result."""

    def aggregate() -> None:
        matrix = torch.stack([torch.cat([gradient.flatten() for gradient in loss]) for loss in gradients])
        direction = aggregator(matrix)
        parts = direction.split([gradient.numel() for gradient in gradients[0]])
        for part, like in zip(parts, gradients[0], strict=True):
            part.view_as(like)

    return aggregate
