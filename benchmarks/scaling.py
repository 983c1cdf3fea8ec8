"""The cost of a step over the number of parameters, and over the number of levels, as multiples of its traffic."""

import torch

import gradsurgery as gs
from benchmarks.apply_torch import applying
from benchmarks.harness import Measure, Plan, in_place_add, interleaved, ratios


def measure(plan: Plan) -> list[Measure]:
    """The lines of the chart."""
    sizes = (10**4, 10**5) if plan.quick else (10**5, 10**6, 10**7, 10**8)
    deep = 10**4 if plan.quick else 4 * 10**6
    return [
        *(line for size in sizes for line in _lines(f"{size:.0e} parameters", plan, size, levels=1)),
        *(line for levels in range(1, 6) for line in _lines(f"{levels} levels", plan, deep, levels)),
    ]


def _lines(what: str, plan: Plan, size: int, levels: int) -> list[Measure]:
    """Eager and compiled, in tensors of which the largest holds a tenth of all parameters."""
    shapes = [size // 10] * 8 + [size // 100] * 20
    gradients = [[torch.randn(shape) for shape in shapes] for _ in range(1 + levels)]
    method = gs.bloop(lam=0.1 if levels == 1 else (0.1,) * levels)
    # gradients and averages are read twice; the direction and the averages are written
    words = size * (2 * (1 + 2 * levels) + 1 + levels)
    ways = {way: applying(gradients, compiled=way == "compiled", method=method) for way in ("eager", "compiled")}
    seconds = interleaved({"floor": in_place_add(words), **ways}, max(plan.repetitions // 3, 1))
    return [Measure(f"torch, {way}: {what}", ratios(seconds, way, "floor"), "traffic") for way in ways]
