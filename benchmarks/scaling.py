"""The cost of a step against the number of parameters and of levels, in multiples of its memory traffic."""

import torch

import gradsurgery as gs
from benchmarks.apply_torch import applying
from benchmarks.harness import Action, Measure, Plan, in_place_add, interleaved, ratios


def measure(plan: Plan) -> list[Measure]:
    """The points of the chart, interleaved, so that a disturbance of the machine affects all of them."""
    sizes = (10**4, 10**5) if plan.quick else (10**5, 10**6, 10**7, 10**8)
    deep = 10**4 if plan.quick else 4 * 10**6
    points = {f"{size:.0e} parameters": _rivals(size, levels=1) for size in sizes}
    points |= {f"{levels} levels": _rivals(deep, levels) for levels in range(1, 6)}
    rivals = {f"{way}: {point}": action for point, actions in points.items() for way, action in actions.items()}
    seconds = interleaved(rivals, plan.repetitions)
    return [
        Measure(f"torch, {way}: {point}", ratios(seconds, f"{way}: {point}", f"floor: {point}"), "traffic")
        for point, actions in points.items()
        for way in actions
        if way != "floor"
    ]


def _rivals(size: int, levels: int) -> dict[str, Action]:
    """Eager and compiled, on 28 tensors; the largest hold a tenth of all parameters each."""
    shapes = [size // 10] * 8 + [size // 100] * 20
    gradients = [[torch.randn(shape) for shape in shapes] for _ in range(1 + levels)]
    method = gs.bloop(lam=0.1 if levels == 1 else (0.1,) * levels)
    # gradients and averages are read twice; the direction and the averages are written
    words = size * (2 * (1 + 2 * levels) + 1 + levels)
    ways = {way: applying(gradients, compiled=way == "compiled", method=method) for way in ("eager", "compiled")}
    return {"floor": in_place_add(words), **ways}
