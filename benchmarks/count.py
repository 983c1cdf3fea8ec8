"""The words that a step moves and the kernels that it starts, counted: unlike a time, the same on every machine.

``apply()`` runs on the meta device, where tensors have no values, under a mode that sees every operation. The inputs of
an operation count as read and its outputs as written, except for views. A word has 4 bytes.

    python -m benchmarks.count       # prints the table in docs/speed.md
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import gradsurgery as gs
from benchmarks.apply_torch import applying
from benchmarks.harness import Measure, Plan, resnet50
from gradsurgery.torch import passes
from gradsurgery.torch.passes import triton_kernels as kernels
from gradsurgery.torch.passes.triton import Triton

SCALARS = 1 << 10
"""An operation on tensors with at most this many elements is one on scalars."""

OVERWRITING = ("copy_", "fill_", "zero_")
"""Operations that write their first argument without reading it."""


@dataclass
class Traffic(TorchDispatchMode):
    """Counts the operations inside its context, and the bytes that they read and write."""

    read: int = 0
    written: int = 0
    kernels: int = 0
    """Operations on vectors."""
    scalar_kernels: int = 0
    """Operations on scalars."""

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        schema, name = function._schema, function.overloadpacket.__name__
        if name.startswith(("empty", "_unsafe_view")) or _returns_views(schema):
            return result
        reads, writes = [], [] if any(_is_written(argument) for argument in schema.arguments) else _tensors(result)
        given = dict(zip((argument.name for argument in schema.arguments), args, strict=False)) | (kwargs or {})
        for argument in schema.arguments:
            tensors = _tensors(given.get(argument.name))
            if _is_written(argument):
                writes += tensors
            if not (argument.is_out or (_is_written(argument) and name.endswith(OVERWRITING))):
                reads += tensors
        self.add(reads, writes)
        return result

    def add(self, reads: Sequence[Tensor], writes: Sequence[Tensor]) -> None:
        """Count one operation."""
        self.read += sum(tensor.nbytes for tensor in reads)
        self.written += sum(tensor.nbytes for tensor in writes)
        if all(tensor.numel() <= SCALARS for tensor in (*reads, *writes)):
            self.scalar_kernels += 1
        else:
            self.kernels += 1


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _returns_views(schema: Any) -> bool:
    aliases = [returned.alias_info for returned in schema.returns]
    return bool(aliases) and all(alias is not None and not alias.is_write for alias in aliases)


@dataclass(frozen=True)
class Count:
    """The cost of a step."""

    read: float
    """Words read for each parameter."""
    written: float
    """Words written for each parameter."""
    kernels: int
    """Operations on vectors."""
    scalar_kernels: int
    """Operations on scalars, for the weights."""

    @property
    def words(self) -> float:
        """Words moved for each parameter."""
        return self.read + self.written


class ConstantScaler:
    """Stands in for a ``GradScaler`` on a device without values."""

    def scale(self, value: Tensor) -> Tensor:
        """The value times the scale."""
        return value * 1024


class CountedTriton(Triton):
    """The Triton passes without their kernels, which count as what they load and store; see ``Triton``.

    ``tests/torch_front/passes/test_triton.py`` finds the same loads and stores in the compiled kernels. The C++ kernel
    has the same loops.
    """

    traffic: Traffic

    def _launch(self, kernel: Any, *arguments: Any, **constants: Any) -> None:
        if kernel is kernels.products:
            used = {k for pair in self._pairs for k in pair}
            self.traffic.add([block.vectors[k] for block in self._blocks for k in used], [])
        else:
            vectors = [vector for block in self._blocks for vector in block.vectors]
            outputs = [vector for block in self._blocks for vector in (block.gradients[-1], *block.averages)]
            self.traffic.add(vectors, outputs)


@contextmanager
def counting(*, compiled: bool) -> Iterator[Traffic]:
    """A context that counts, in which the passes are eager ones or Triton's."""
    traffic = Traffic()
    counted = type("Counted", (CountedTriton,), {"traffic": traffic})
    with mock.patch.object(passes, "Eager", counted) if compiled else nullcontext(), traffic:
        yield traffic


def count(
    method: gs.Method,
    aux_count: int = 1,
    *,
    compiled: bool = False,
    shapes: Sequence[tuple[int, ...]] | None = None,
    dtype: torch.dtype = torch.float32,
    average_dtype: torch.dtype | None = None,
    scaled: bool = False,
) -> Count:
    """Count the second step of a method; the first allocates the averages.

    Args:
        method: the method.
        aux_count: the number of auxiliary losses.
        compiled: whether to count the Triton kernels instead of PyTorch's operations.
        shapes: the shapes of the parameters; a ResNet50's by default.
        dtype: the type of the gradients.
        average_dtype: the type of the averages.
        scaled: whether a ``GradScaler`` has scaled the losses.
    """
    shapes = resnet50() if shapes is None else shapes
    gradients = [[torch.empty(shape, device="meta", dtype=dtype) for shape in shapes] for _ in range(1 + aux_count)]
    scaler = ConstantScaler() if scaled else None
    prepare = applying(gradients, compiled=False, method=method, scaler=scaler, average_dtype=average_dtype)
    for _ in range(2):
        step = prepare()
        with counting(compiled=compiled) as traffic:
            step()
    total = 4 * sum(map(math.prod, shapes))
    return Count(traffic.read / total, traffic.written / total, traffic.kernels, traffic.scalar_kernels)


CASES: dict[str, dict[str, Any]] = {
    **{
        name: {"method": make(**{weight: 0.1 for weight in ("lam", "tau") if weight in make.__dataclass_fields__})}
        for name, make in gs.METHODS.items()
    },
    "bloop, two levels": {"method": gs.bloop(lam=(0.1, 0.1)), "aux_count": 2},
    "bloop, relative λ": {"method": gs.bloop(lam=gs.relative(0.1))},
    "bloop, with a scaler": {"method": gs.bloop(lam=0.1), "scaled": True},
    "bloop, gradients in bfloat16": {"method": gs.bloop(lam=0.1), "dtype": torch.bfloat16},
    "bloop, average in bfloat16": {"method": gs.bloop(lam=0.1), "average_dtype": torch.bfloat16},
    "bloop, both in bfloat16": {"method": gs.bloop(lam=0.1), "dtype": torch.bfloat16, "average_dtype": torch.bfloat16},
}
"""What the table shows, by label: arguments of ``count``."""


def measure(plan: Plan) -> list[Measure]:
    """The lines of the table that have a goal."""
    shapes = plan.shapes()
    goals = {"bloop": (16, 8.1), "bloop, two levels": (36, 13.1)}
    return [
        Measure(f"torch: words of {label}, {way}", [count(**CASES[label], compiled=compiled, shapes=shapes).words],
                "words per parameter", at_most=goals[label][compiled])
        for label in goals
        for way, compiled in (("eager", False), ("compiled", True))
    ]  # fmt: skip


def table() -> str:
    """The table in docs/speed.md."""
    lines = [
        "| step | eager: words read, written | kernels | compiled: words read, written | kernels | on scalars |",
        "|---|---|---|---|---|---|",
    ]
    for label, case in CASES.items():
        eager, compiled = count(**case), count(**case, compiled=True)
        lines.append(
            f"| {label} | {eager.read:.1f}, {eager.written:.1f} | {eager.kernels} "
            f"| {compiled.read:.1f}, {compiled.written:.1f} | {compiled.kernels} | {eager.scalar_kernels} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
