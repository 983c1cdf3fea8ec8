"""Tasks for several processes that differ from ``workers.train``."""

import copy
import warnings
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import gradsurgery as gs
import gradsurgery.torch as gst
from tests.torch_front.workers import OF_OUTPUT, WORLD, Outcome, batch, full, network, train


def train_inside_join(rank: int) -> Outcome:
    wrapped = DistributedDataParallel(network())
    surgery = gst.Surgery(wrapped, gs.bloop(lam=0.5, rho=0.1))
    x, _ = batch(0, rank, WORLD)
    with wrapped.join():
        try:
            surgery.backward(lambda: wrapped(x)[0].square().mean(), lambda: wrapped(x)[0].sin().mean())
        except RuntimeError as error:
            wrapped(x)[0].sum().backward()  # join expects a synchronised pass
            return Outcome(error=f"RuntimeError: {error}")
    return Outcome(steps=1)


def train_without_naming_the_model(rank: int, *, synchronised: bool, as_module: bool) -> Outcome:
    """The surgery is given what is inside a DDP module; the warning is the outcome's error if all else is right."""
    model = network()
    wrapped = DistributedDataParallel(model)
    surgery = gst.Surgery(model if as_module else wrapped.parameters(), gs.bloop(lam=0.5, rho=0.1))
    x, _ = batch(0, rank, WORLD)
    main, aux = (lambda: wrapped(x)[0].square().mean()), (lambda: wrapped(x)[0].sin().mean())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        surgery.backward(*((main, aux) if synchronised else (main(), aux())))
    try:
        surgery.apply()
    except RuntimeError as error:
        return Outcome(error=f"RuntimeError: {error}")
    return Outcome([parameter.grad for parameter in model.parameters()], error=str(caught[0].message), steps=1)


def train_with_tensor_parallelism(rank: int) -> Outcome:
    """FSDP2 over two processes and tensor parallelism over two: shards are strided."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 8)).double()
    model = copy.deepcopy(alone)
    plan = {"0": ColwiseParallel(output_layouts=Replicate()), "2": ColwiseParallel(output_layouts=Replicate())}
    parallelize_module(model, mesh["tensor"], plan)
    fully_shard(model, mesh=mesh["data"])
    directions = []
    for net in (alone, model):
        surgery = gst.Surgery(net.parameters(), gs.bloop(lam=0.5, rho=0.1), model=net)
        for step in range(3):
            x, _ = batch(step, 0, 1)
            net.zero_grad()
            surgery.backward(lambda: net(x).square().mean(), lambda: net(x).sin().mean())  # noqa: B023
            surgery.apply()
        directions.append([full(parameter.grad) for parameter in net.parameters()])
    return Outcome(directions[1], [directions[0]], steps=3)


def train_beside_ddp(rank: int) -> Outcome:
    """Each process trains its own model on its own data; an unrelated model is under DDP."""
    other = DistributedDataParallel(network())
    result = train(rank)
    assert isinstance(other, DistributedDataParallel)
    return result


def train_with_unequal_threads(rank: int) -> Outcome:
    """Processes that sum in different orders: synchronised gradients differ by rounding."""
    torch.set_num_threads(1 + rank)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 1))
    wrapped = DistributedDataParallel(model)
    surgery = gst.Surgery(wrapped, gs.bloop(lam=0.5, rho=0.1))
    try:
        for step in range(3):
            x = torch.randn(16, 300, generator=torch.Generator().manual_seed(WORLD * step + rank))
            model.zero_grad()
            surgery.backward(lambda x=x: wrapped(x).square().mean(), lambda x=x: wrapped(x).sin().mean())
            surgery.apply()
    except RuntimeError as error:
        return Outcome(error=str(error))
    finally:
        torch.set_num_threads(1)
    return Outcome(steps=3)


def train_on_gradients_of_equal_length(rank: int) -> Outcome:
    """One forward pass under DDP: the aux gradients of the two processes differ, but have the same length."""
    model = nn.Embedding(4, 3)
    wrapped = DistributedDataParallel(model)
    output = wrapped(torch.tensor([rank, 2]))
    surgery = gst.Surgery(wrapped, gs.bloop(lam=0.5, rho=0.1))
    surgery.backward(output.square().sum(), output.sum())
    try:
        surgery.apply()
    except RuntimeError as error:
        return Outcome(error=f"RuntimeError: {error}")
    return Outcome([model.weight.grad], steps=1)


def step_with_plain_gradients(rank: int, wrap: Callable[[nn.Module], nn.Module], position: str) -> Outcome:
    """One step with a third loss, whose gradient a plain ``backward()`` adds before or after ``surgery.backward``.

    The outcome has ``.grad`` as its parameters.
    """
    model = network()
    wrapped = wrap(model)
    surgery = gst.Surgery(wrapped, gs.bloop(lam=0.5, rho=0.1))
    x, y = batch(0, rank, WORLD)

    def loss(name: str) -> Tensor:
        return OF_OUTPUT[name](wrapped(x)[0], y)

    if position == "before":
        loss("wave").backward()
    surgery.backward(partial(loss, "fit"), partial(loss, "quartic"))
    if position == "after":
        loss("wave").backward()
    surgery.apply()
    return Outcome([full(parameter.grad) for parameter in model.parameters()], steps=1)
