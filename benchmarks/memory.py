"""Peak memory of a PyTorch step, beyond that of training on the sum of the losses."""

from collections.abc import Callable
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile

import gradsurgery as gs
import gradsurgery.torch as gst
from benchmarks.harness import Measure, Plan


def measure(plan: Plan) -> list[Measure]:
    """The lines of the table."""
    width = 64 if plan.quick else 1024
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(6)))
    parameter_bytes = sum(parameter.nbytes for parameter in model.parameters())
    inputs = torch.randn(2, 8, width)
    surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.1))

    def losses() -> list[torch.Tensor]:
        return [model(batch).square().mean() for batch in inputs]

    def plain() -> None:
        main, aux = losses()
        (main + 0.1 * aux).backward()

    def bloop() -> None:
        surgery.backward(*losses())
        surgery.apply()

    peaks = {}
    for name, step in (("plain", plain), ("bloop", bloop)):
        for _ in range(2):  # the first step allocates the average
            model.zero_grad()
            peaks[name] = peak(step)
    average_bytes = sum(average.nbytes for level in surgery.state_dict()["averages"] for average in level.values())
    extra = (peaks["bloop"] - peaks["plain"] + average_bytes) / parameter_bytes
    note = "in multiples of the parameters: the auxiliary gradient and the average"
    return [Measure("torch: peak memory beyond the summed loss", [extra], "parameters", at_most=2.05, note=note)]


def peak(step: Callable[[], None]) -> int:
    """The peak number of bytes that a step allocates."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recording:
        step()
    events = [event for event in recording.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))
