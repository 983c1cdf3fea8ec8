"""The same training in two processes and in one, to compare their results.

A task is a function of the rank. ``run_tasks`` runs many tasks in one pair of processes, since processes start slowly.
"""

import multiprocessing
import warnings
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import gradsurgery as gs
import gradsurgery.torch as gst

WORLD, STEPS, ROWS = 2, 6, 8


@dataclass
class Outcome:
    """The result of one process at the end of a task."""

    parameters: list[Tensor] = field(default_factory=list)
    averages: list[list[Tensor]] = field(default_factory=list)
    """The full averages, by level and parameter."""
    shards: list[list[Tensor]] = field(default_factory=list)
    """The shards of the averages that this process holds."""
    steps: int = 0
    """Steps completed, before the error if any."""
    error: str | None = None


# --- two processes


def fork_server(*modules: str) -> Any:
    """A context whose processes are forked from one that has imported PyTorch, and these modules if it starts here."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.torch_front.tasks", "tests.torch_front.wrappers", "torch._dynamo", *modules])
    return context


def run_tasks(tasks: dict[str, Callable[[int], Outcome]], folder: Path, world: int = WORLD) -> dict[str, list[Outcome]]:
    """The outcomes of the tasks on each rank. If a process dies, all later tasks have its error."""
    fatal = None
    try:
        torch.multiprocessing.start_processes(
            _process, (tasks, folder, world), world, start_method=fork_server().get_start_method()
        )
    except Exception as error:
        fatal = f"{type(error).__name__}: {error}"
    outcomes = {}
    for number, name in enumerate(tasks):
        files = [folder / f"{number}.{rank}" for rank in range(world)]
        if not all(file.exists() for file in files) and not str(fatal).startswith("in the task"):
            fatal = f"in the task '{name}', {fatal}"
        outcomes[name] = [
            torch.load(file, weights_only=False) if file.exists() else Outcome(error=fatal) for file in files
        ]
    return outcomes


def _process(rank: int, tasks: dict[str, Callable[[int], Outcome]], folder: Path, world: int) -> None:
    warnings.simplefilter("error")
    # raised by torch for a loss of both shards and gathered parameters
    warnings.filterwarnings("ignore", "Found a non-scalar tensor with numel=1")
    warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view tensor")
    torch.set_num_threads(1)
    store = f"file://{folder / 'store'}"
    dist.init_process_group("gloo", store, rank=rank, world_size=world, timeout=timedelta(seconds=300))
    for number, task in enumerate(tasks.values()):
        torch.save(task(rank), folder / f"{number}.{rank}")
        dist.barrier()
    dist.destroy_process_group()


# --- model, data, losses


class Net(nn.Module):
    """Layers whose first dimensions are 7, 3 and 1: two processes get uneven and empty shards."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Tanh())
        self.heads = nn.ModuleList([nn.Linear(3, 1) for _ in range(heads)])

    def forward(self, x: Tensor, only: int | None = None) -> list[Tensor]:
        """The outputs of all heads, or of one."""
        hidden = self.body(x)
        return [head(hidden) for index, head in enumerate(self.heads) if only in (None, index)]


def batch(step: int, rank: int, world: int) -> tuple[Tensor, Tensor]:
    """The rows of this rank in a step."""
    generator = torch.Generator().manual_seed(step)
    x, y = (torch.randn(ROWS, width, generator=generator, dtype=torch.float64) for width in (5, 1))
    x[::2] *= 3  # the ranks get different data
    return x[rank::world], y[rank::world]


PARAMETERS_ONLY = {
    "weights": lambda model: sum(parameter.square().sum() for parameter in model.parameters()) / 2,
    # under FSDP2 the gradient of this loss is replicated, not sharded
    "sums": lambda model: sum(parameter.sum().square() for parameter in model.parameters()) / 2,
}
OF_OUTPUT = {
    "fit": lambda output, y: (output - y).square().mean(),
    "quartic": lambda output, _: (output - 1).pow(4).mean(),
    "wave": lambda output, _: output.sin().mean(),
}


# --- training


def train(
    rank: int,
    world: int = WORLD,
    *,
    wrap: Callable[[nn.Module], nn.Module] | None = None,
    losses: tuple[str, ...] = ("fit", "quartic"),
    heads: int = 1,
    optimizer: str = "momentum",
    order: str = "functions",
    start: int = 0,
    micro_batches: int = 1,
    unsynchronised: tuple[int, ...] = (),
    steps: int = STEPS,
    checkpoint: Path | None = None,
    attached: bool = False,
    compiled: bool = False,
    trunk_only: bool = False,
    average_dtype: torch.dtype | None = None,
) -> Outcome:
    """Train a small network with bloop.

    Args:
        rank: of this process.
        world: how many processes share each batch.
        wrap: makes the model parallel.
        losses: main first; with two heads, main uses the first and the others use the second.
        heads: the number of heads of the network.
        optimizer: "momentum", "adam" or "plain".
        order: whether losses are tensors or functions, and in what order forward passes run.
        start: the first step that uses this order; earlier steps pass functions.
        micro_batches: the number of micro-batches in each step.
        unsynchronised: the micro-batches that are not synchronised.
        steps: the number of steps.
        checkpoint: a folder; half way, everything is saved there, rebuilt and loaded.
        attached: whether the checkpoint holds the optimiser with the surgery attached, not the surgery alone.
        compiled: whether to pass ``compile=True``.
        trunk_only: whether the heads are outside the surgery.
        average_dtype: the type of the averages.
    """
    options = {"compile": compiled, "average_dtype": average_dtype}
    model, wrapped, surgery, optimiser = make(wrap, heads, len(losses) - 1, optimizer, trunk_only, options)
    for step in range(steps):
        if checkpoint and step == steps // 2:
            dcp.save(whole_state(model, surgery, optimiser, attached), checkpoint_id=checkpoint)
            model, wrapped, surgery, optimiser = make(wrap, heads, len(losses) - 1, optimizer, trunk_only, options)
            state = whole_state(model, surgery, optimiser, attached)
            dcp.load(state, checkpoint_id=checkpoint)
            model.load_state_dict(state["model"])
            if attached:
                set_optimizer_state_dict(model, optimiser, state["optimizer"])
            else:
                surgery.load_state_dict(state["surgery"])
        x, y = batch(step, rank, world)
        try:
            for micro, (micro_x, micro_y) in enumerate(
                zip(x.chunk(micro_batches), y.chunk(micro_batches), strict=True)
            ):
                with unsynced(wrapped) if micro in unsynchronised else nullcontext():
                    micro_losses = make_losses(
                        wrapped, losses, heads, micro_x, micro_y, micro_batches, order if step >= start else "functions"
                    )
                    surgery.backward(*micro_losses)
            surgery.apply()
        except Exception as error:
            return Outcome(steps=step, error=f"{type(error).__name__}: {error}")
        optimiser.step()
        optimiser.zero_grad()
    return outcome(model, surgery, steps)


def whole_state(
    model: nn.Module, surgery: gst.Surgery, optimiser: torch.optim.Optimizer, attached: bool
) -> dict[str, Any]:
    """What a checkpoint holds."""
    if not attached:
        return {"model": model.state_dict(), "surgery": surgery.state_dict()}
    surgery.attach(optimiser)
    return {"model": model.state_dict(), "optimizer": get_optimizer_state_dict(model, optimiser)}


def network(heads: int = 1) -> Net:
    torch.manual_seed(0)
    return Net(heads).double()


def make(
    wrap: Callable[[nn.Module], nn.Module] | None,
    heads: int,
    aux_count: int,
    optimizer: str,
    trunk_only: bool,
    options: dict[str, Any],
) -> tuple[nn.Module, nn.Module, gst.Surgery, torch.optim.Optimizer]:
    """The model, the wrapped model, and what trains it."""
    model = network(heads)
    wrapped = wrap(model) if wrap else model
    trained, method = model.body if trunk_only else model, gs.bloop(lam=(0.5, 0.3)[:aux_count], rho=0.1)
    surgery = gst.Surgery(trained, method, model=wrapped, **options)
    optimisers = {
        "plain": partial(torch.optim.SGD, lr=0.05),
        "momentum": partial(torch.optim.SGD, lr=0.05, momentum=0.9),
        "adam": partial(torch.optim.Adam, lr=0.02),
    }
    return model, wrapped, surgery, optimisers[optimizer](model.parameters())


def outcome(model: nn.Module, surgery: gst.Surgery, steps: int) -> Outcome:
    averages = [level.values() for level in surgery.state_dict()["averages"]]
    return Outcome(
        [full(parameter) for parameter in model.parameters()],
        [[full(average) for average in level] for level in averages],
        [[shard(average) for average in level] for level in averages],
        steps,
    )


def full(tensor: Tensor) -> Tensor:
    return tensor.full_tensor().detach() if isinstance(tensor, DTensor) else tensor


def shard(tensor: Tensor) -> Tensor:
    return tensor.to_local().detach().clone() if isinstance(tensor, DTensor) else tensor


@contextmanager
def unsynced(model: nn.Module):
    if isinstance(model, DistributedDataParallel):
        with model.no_sync():
            yield
        return
    model.set_requires_gradient_sync(False)
    yield
    model.set_requires_gradient_sync(True)


def make_losses(
    model: nn.Module, names: tuple[str, ...], heads: int, x: Tensor, y: Tensor, parts: int, order: str
) -> list[Tensor | Callable[[], Tensor]]:
    """The losses of one micro-batch, each divided by the number of micro-batches, in the form that ``order`` names."""

    def loss(index: int, output: list[Tensor] | None = None) -> Tensor:
        name, head = names[index], min(index, heads - 1)
        if name in PARAMETERS_ONLY:
            return PARAMETERS_ONLY[name](model) / parts
        if name == "evenness":  # needs two forward passes
            return (model(x, only=head)[0] - model(-x, only=head)[0]).square().mean() / parts
        prediction = model(x, only=head)[0] if output is None else output[head]
        return OF_OUTPUT[name](prediction, y) / parts

    functions = [partial(loss, index) for index in range(len(names))]
    match order:
        case "functions":
            return functions
        case "main as a tensor":
            return [functions[0](), *functions[1:]]
        case "parameters-only losses as tensors":
            return [
                function() if name in PARAMETERS_ONLY else function
                for name, function in zip(names, functions, strict=True)
            ]
        case "one forward":
            output = model(x)
            return [function(output) for function in functions]
        case "forwards first":
            return [function() for function in functions]
        case "aux as tensors":
            return [functions[0], *(function() for function in functions[1:])]
    raise ValueError(order)
