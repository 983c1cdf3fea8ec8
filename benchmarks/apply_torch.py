"""``apply()`` of bloop in PyTorch, eager and compiled, compared with its memory traffic and with TorchJD."""

import math
import time
from functools import partial
from typing import Any

import torch
from torchjd.aggregation import MGDA, PCGrad, UPGrad
from torchjd.autojac import jac_to_grad

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
        Measure("torch: apply(), eager", ratios(seconds, "eager", "floor"), "traffic"),
        *(
            Measure(f"torch: {name} / our {ours} apply()", ratios(seconds, name, ours), "times", at_least=goal)
            for ours, goal in (("compiled", 2.5), ("eager", 1.6))
            for name in rivals
            if name.startswith("TorchJD")
        ),
        Measure("torch: gradsurgery, eager / our compiled apply()", ratios(seconds, "eager", "compiled"), "times"),
    ]


def applying(
    gradients: list[list[torch.Tensor]],
    *,
    compiled: bool,
    method: gs.Method | None = None,
    scaler: Any = None,
    average_dtype: torch.dtype | None = None,
) -> Action:
    """``apply()`` on gradients as ``backward`` gathers them."""
    parameters = [torch.nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients[0]]
    method = method or gs.bloop(lam=0.1)
    surgery = gst.Surgery(parameters, method, compile=compiled, average_dtype=average_dtype)
    copies = [[gradient.clone() for gradient in loss] for loss in gradients]  # apply() writes over them

    def prepare() -> Action:
        for parameter in parameters:
            parameter.grad = None
        surgery._gatherer.gradients = [list(loss) for loss in copies]
        return partial(surgery.apply, scaler=scaler)

    return prepare


def aggregating(gradients: list[list[torch.Tensor]], aggregator: torch.nn.Module) -> Action:
    """The direction by TorchJD, through its quickest API, on gradients as its ``backward`` leaves them in ``.jac``.

    It reads two gradients twice and writes the direction: 5 words per parameter, as it keeps no average.
    """
    parameters = [torch.nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients[0]]
    jacobians = [torch.stack(rows) for rows in zip(*gradients, strict=True)]

    def prepare() -> Action:
        for parameter, jacobian in zip(parameters, jacobians, strict=True):
            parameter.grad, parameter.jac = None, jacobian
        return partial(jac_to_grad, parameters, aggregator, optimize_gramian_computation=True)

    return prepare
