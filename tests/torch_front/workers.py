"""Training in two processes and in one, on the same data by the same steps, so that their numbers can be compared.

A task is a function of the rank; ``together`` runs many of them in one pair of processes, as these start slowly.
"""

import gc
import warnings
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import gradsurgery as gs
import gradsurgery.torch as gst

WORLD, STEPS, ROWS = 2, 20, 8


@dataclass
class Outcome:
    """What one process has at the end of a task."""

    parameters: list[Tensor] = field(default_factory=list)
    averages: list[list[Tensor | None]] = field(default_factory=list)
    """The whole averages, by level and parameter."""
    parts: list[list[Tensor | None]] = field(default_factory=list)
    """What this process holds of them."""
    steps: int = 0
    """The steps done, before the error if there is one."""
    error: str | None = None


# --- two processes


def together(tasks: dict[str, Callable[[int], Outcome]], folder: Path) -> dict[str, list[Outcome]]:
    """The outcomes of the tasks on each rank; those after one in which a process died have its error."""
    end = None
    try:
        torch.multiprocessing.spawn(_process, (tasks, folder), nprocs=WORLD)
    except Exception as error:
        end = f"{type(error).__name__}: {error}"
    found = {}
    for number, name in enumerate(tasks):
        files = [folder / f"{number}.{rank}" for rank in range(WORLD)]
        if not all(file.exists() for file in files) and not str(end).startswith("in the task"):
            end = f"in the task '{name}', {end}"
        found[name] = [torch.load(file, weights_only=False) if file.exists() else Outcome(error=end) for file in files]
    return found


def _process(rank: int, tasks: dict[str, Callable[[int], Outcome]], folder: Path) -> None:
    warnings.simplefilter("error")
    # of torch, where a loss is of shards and of gathered parameters
    warnings.filterwarnings("ignore", "Found a non-scalar tensor with numel=1")
    torch.set_num_threads(1)
    gc.freeze()  # a surgery looks through what is alive for DDP, once: let that not be all of torch in every task
    store = f"file://{folder / 'store'}"
    dist.init_process_group("gloo", store, rank=rank, world_size=WORLD, timeout=timedelta(seconds=30))
    for number, task in enumerate(tasks.values()):
        torch.save(task(rank), folder / f"{number}.{rank}")
        dist.barrier()
    dist.destroy_process_group()


# --- model, data, losses


class Net(nn.Module):
    """Layers whose first dimension is 7, 3 and 1: two processes get uneven shards, and empty ones."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3), nn.Tanh())
        self.heads = nn.ModuleList([nn.Linear(3, 1) for _ in range(heads)])

    def forward(self, x: Tensor, only: int | None = None) -> list[Tensor]:
        """The outputs of all heads, or of one."""
        hidden = self.body(x)
        return [head(hidden) for index, head in enumerate(self.heads) if only in (None, index)]


def batch(step: int, rank: int, world: int) -> tuple[Tensor, Tensor]:
    """This rank's share of the rows of a step."""
    generator = torch.Generator().manual_seed(step)
    x, y = (torch.randn(ROWS, width, generator=generator, dtype=torch.float64) for width in (5, 1))
    x[::2] *= 3  # the shares differ
    return x[rank::world], y[rank::world]


CLOSED = {
    "weights": lambda model: sum(one.square().sum() for one in model.parameters()) / 2,
    # from shards, the gradient of this one comes whole
    "sums": lambda model: sum(one.sum().square() for one in model.parameters()) / 2,
}
OPEN = {
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
    compiled: bool = False,
) -> Outcome:
    """Train a small network by bloop.

    Args:
        rank: of this process.
        world: how many processes share each batch.
        wrap: what makes the model parallel.
        losses: main first; with two heads, main is of the first and the others of the second.
        heads: of the network.
        optimizer: "momentum", "adam" or "plain".
        order: how the losses are given.
        start: the first step in this order; those before give functions.
        micro_batches: in each step.
        unsynchronised: those of them that are not to be synchronised.
        steps: how many.
        checkpoint: a folder; half way, all is saved there, made anew and loaded.
        compiled: whether the surgery is.
    """
    model, wrapped, surgery, optimiser = made(wrap, heads, len(losses) - 1, optimizer, compiled)
    for step in range(steps):
        if checkpoint and step == steps // 2:
            dcp.save({"model": model.state_dict(), "surgery": surgery.state_dict()}, checkpoint_id=checkpoint)
            model, wrapped, surgery, optimiser = made(wrap, heads, len(losses) - 1, optimizer, compiled)
            state = {"model": model.state_dict(), "surgery": surgery.state_dict()}
            dcp.load(state, checkpoint_id=checkpoint)
            model.load_state_dict(state["model"])
            surgery.load_state_dict(state["surgery"])
        x, y = batch(step, rank, world)
        try:
            for micro, (some_x, some_y) in enumerate(zip(x.chunk(micro_batches), y.chunk(micro_batches), strict=True)):
                with unsynced(wrapped) if micro in unsynchronised else nullcontext():
                    given = given_losses(
                        wrapped, losses, heads, some_x, some_y, micro_batches, order if step >= start else "functions"
                    )
                    surgery.backward(*given)
            surgery.apply()
        except Exception as error:
            return Outcome(steps=step, error=f"{type(error).__name__}: {error}")
        optimiser.step()
        optimiser.zero_grad()
    return outcome(model, surgery, steps)


def network(heads: int = 1) -> Net:
    torch.manual_seed(0)
    return Net(heads).double()


def made(
    wrap: Callable[[nn.Module], nn.Module] | None, heads: int, aux_count: int, optimizer: str, compiled: bool
) -> tuple[nn.Module, nn.Module, gst.Surgery, torch.optim.Optimizer]:
    """The model, the same wrapped, and what trains it."""
    model = network(heads)
    wrapped = wrap(model) if wrap else model
    surgery = gst.Surgery(model.parameters(), gs.bloop(lam=(0.5, 0.3)[:aux_count], rho=0.1), compile=compiled)
    optimisers = {
        "plain": partial(torch.optim.SGD, lr=0.05),
        "momentum": partial(torch.optim.SGD, lr=0.05, momentum=0.9),
        "adam": partial(torch.optim.Adam, lr=0.02),
    }
    return model, wrapped, surgery, optimisers[optimizer](model.parameters())


def outcome(model: nn.Module, surgery: gst.Surgery, steps: int) -> Outcome:
    averages = surgery.state_dict()["averages"]
    return Outcome(
        [whole(parameter) for parameter in model.parameters()],
        [[whole(average) for average in level] for level in averages],
        [[part(average) for average in level] for level in averages],
        steps,
    )


def whole(tensor: Tensor | None) -> Tensor | None:
    return tensor.full_tensor().detach() if isinstance(tensor, DTensor) else tensor


def part(tensor: Tensor | None) -> Tensor | None:
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


def given_losses(
    model: nn.Module, names: tuple[str, ...], heads: int, x: Tensor, y: Tensor, parts: int, order: str
) -> list[Tensor | Callable[[], Tensor]]:
    """The losses, each divided by the number of micro-batches, in the form and after the passes that an order says."""

    def loss(index: int, output: list[Tensor] | None = None) -> Tensor:
        name, head = names[index], min(index, heads - 1)
        if name in CLOSED:
            return CLOSED[name](model) / parts
        if name == "evenness":  # of two forward passes
            return (model(x, only=head)[0] - model(-x, only=head)[0]).square().mean() / parts
        one = model(x, only=head)[0] if output is None else output[head]
        return OPEN[name](one, y) / parts

    functions = [partial(loss, index) for index in range(len(names))]
    match order:
        case "functions":
            return functions
        case "main as a tensor":
            return [functions[0](), *functions[1:]]
        case "closed forms as tensors":
            return [one() if name in CLOSED else one for name, one in zip(names, functions, strict=True)]
        case "one forward":
            output = model(x)
            return [one(output) for one in functions]
        case "forwards first":
            return [one() for one in functions]
        case "aux as tensors":
            return [functions[0], *(one() for one in functions[1:])]
    raise ValueError(order)


# --- what makes a model parallel


def sharded(
    model: nn.Module, shape: tuple[int, ...] = (2,), names: tuple[str, ...] = ("shard",), **options
) -> nn.Module:
    return fully_shard(model, mesh=init_device_mesh("cpu", shape, mesh_dim_names=names), **options)


def sharded_by_layer(model: Net) -> nn.Module:
    """As is usual: each layer apart, and what is left, here the heads, with the root."""
    fully_shard(model.body[0])
    fully_shard(model.body[2])
    return fully_shard(model)


def sharded_over_two_meshes(model: Net) -> nn.Module:
    """One layer whole in each process, the others sharded: inner products are summed for these only."""
    sharded(model.body[0], (2, 1), ("replicate", "shard"))
    return sharded(model, (1, 2), ("replicate", "shard"))


def sharded_with_silent_root(model: Net) -> nn.Module:
    sharded_by_layer(model).set_requires_gradient_sync(False, recurse=False)
    return model


def replicated_without_all_reduce(model: Net) -> nn.Module:
    sharded(model, (2, 1), ("replicate", "shard")).set_requires_all_reduce(False)
    return model


# --- other tasks


def train_beside_ddp(rank: int) -> Outcome:
    """Each process trains a model of its own on its own data; another model is under DDP."""
    other = DistributedDataParallel(network())
    found = train(rank)
    assert isinstance(other, DistributedDataParallel)
    return found


def train_with_unequal_threads(rank: int) -> Outcome:
    """Processes that add up in another order: what is alike differs by rounding."""
    torch.set_num_threads(1 + rank)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 1))
    wrapped = DistributedDataParallel(model)
    surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.5, rho=0.1))
    try:
        for step in range(3):
            x = torch.randn(16, 300, generator=torch.Generator().manual_seed(WORLD * step + rank))
            surgery.backward(lambda x=x: wrapped(x).square().mean(), lambda x=x: wrapped(x).sin().mean())
            surgery.apply()
    except RuntimeError as error:
        return Outcome(error=str(error))
    finally:
        torch.set_num_threads(1)
    return Outcome(steps=3)


def train_on_gradients_of_one_length(rank: int) -> Outcome:
    """One forward under DDP: the aux gradient of each process has its ones in another row, so that lengths agree."""
    model = nn.Embedding(4, 3)
    wrapped = DistributedDataParallel(model)
    output = wrapped(torch.tensor([rank, 2]))
    surgery = gst.Surgery(model.parameters(), gs.bloop(lam=0.5, rho=0.1))
    surgery.backward(output.square().sum(), output.sum())
    try:
        surgery.apply()
    except RuntimeError as error:
        return Outcome(error=f"RuntimeError: {error}")
    return Outcome([model.weight.grad], steps=1)
