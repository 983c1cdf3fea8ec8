"""Peak memory of a PyTorch step, beyond that of training on the sum of the losses."""

from collections.abc import Callable
from itertools import accumulate

import torch
from torch.profiler import ProfilerActivity, profile

import gradsurgery as gs
import gradsurgery.torch as gst
from benchmarks.harness import DEVICE, Measure, Plan


def measure(plan: Plan) -> list[Measure]:
    """The lines of the table."""
    width = 64 if plan.quick else 1024
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(6)))
    parameter_bytes = sum(parameter.nbytes for parameter in model.parameters())
    inputs = torch.randn(2, 8, width)

    def losses() -> list[torch.Tensor]:
        return [model(batch).square().mean() for batch in inputs]

    def plain() -> None:
        main, aux = losses()
        (main + 0.1 * aux).backward()

    def extra(average_dtype: torch.dtype | None) -> float:
        """The peak beyond that of ``plain``, in multiples of the parameters."""
        surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.1), average_dtype=average_dtype)

        def bloop() -> None:
            surgery.backward(*losses())
            surgery.apply()

        peaks = {}
        for step in (plain, bloop, bloop):  # the first step allocates the average
            model.zero_grad()
            peaks[step] = peak(step)
        average_bytes = sum(average.nbytes for level in surgery.state_dict()["averages"] for average in level.values())
        return (peaks[bloop] - peaks[plain] + average_bytes) / parameter_bytes

    name, note = "torch: peak memory beyond the summed loss", "the auxiliary gradient and the average"
    return [
        Measure(name, [extra(None)], "parameters", at_most=1.7, note=note),
        Measure(f"{name}, average in bfloat16", [extra(torch.bfloat16)], "parameters", at_most=1.2, note=note),
    ]


def peak(step: Callable[[], None]) -> int:
    """The peak number of bytes that a step allocates."""
    if DEVICE.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return int(torch.cuda.max_memory_allocated()) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recording:
        step()
    events = [event for event in recording.profiler.kineto_results.events() if event.name() == "[memory]"]
    return max(accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))
