"""The two passes on a CPU by a kernel in C++, ``native.cpp``: all blocks in one call, whatever their lengths."""

import os
import shlex
import shutil
import subprocess
import sys
from array import array
from collections.abc import Sequence
from ctypes import CDLL, c_double, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from gradsurgery.scalar import Scalar
from gradsurgery.torch.blocks import Block
from gradsurgery.torch.scalars import Numbers, Pairs, wide

SOURCE = Path(__file__).with_name("native.cpp")

NAMES = {
    torch.float64: "double",
    torch.float32: "float",
    torch.bfloat16: "c10::BFloat16",
    torch.float16: "c10::Half",
}
"""What C++ calls the types."""

DOUBLES = Numbers(torch.device("cpu"), torch.float64)
"""The numbers that kernels are called with."""


class Native:
    """The two passes over blocks of one type; see ``Passes``.

    Args:
        blocks: at least one.
        pairs: the inner products to form.
    """

    def __init__(self, blocks: Sequence[Block], pairs: Pairs) -> None:
        first, self._count = blocks[0], len(pairs)
        self._library = compiled(len(first.gradients), len(first.averages), pairs, first.dtype)
        sizes = array("q", [block.gradients[0].numel() for block in blocks])
        addresses = array("q", [one.data_ptr() for some, averages, _ in blocks for one in (*some, *averages)])
        self._table = len(sizes), _address(sizes), _address(addresses), torch.get_num_threads()
        self._held = blocks, sizes, addresses  # as the table has no more than addresses

    def products(self) -> Sequence[Scalar]:
        """The inner products."""
        found = array("d", [0.0]) * self._count
        self._library.products(*self._table, _address(found))
        return found

    def finish(self, weights: Sequence[Scalar], keep: Scalar, take: Scalar, unscale: Scalar | None) -> None:
        """Write the direction and move the averages."""
        *numbers, keep, take, factor = DOUBLES.scalars([*weights, keep, take, 1.0 if unscale is None else unscale])
        table = array("d", numbers)
        self._library.finish(*self._table, _address(table), keep, take * factor)


def compiler() -> list[str]:
    """The command of the C++ compiler; raises if there is none."""
    command = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    if shutil.which(command[0]) is None:
        raise RuntimeError(
            f"compile=True needs a C++ compiler, but there is no {command[0]}: install one, or name it in CXX"
        )
    return command


@cache
def compiled(gradients: int, averages: int, pairs: Pairs, dtype: torch.dtype) -> CDLL:
    """The kernels for steps with so many vectors, these inner products, and gradients of this type."""
    definitions = {
        "GRADIENTS": gradients,
        "AVERAGES": averages,
        "COUNT": len(pairs),
        "PAIRS": ",".join(f"{{{a},{b}}}" for a, b in pairs),
        "NUMBER": NAMES[dtype],
        "WIDE": NAMES[wide(dtype)],
    }
    command = compiler()
    # the compilers of macOS come without OpenMP
    parallel = ["-fopenmp"] if sys.platform == "linux" else ["-Wno-unknown-pragmas"]
    options = ["-std=c++17", "-O3", "-march=native", "-fPIC", "-shared", *parallel]
    options += [f"-I{Path(torch.__file__).parent / 'include'}"]
    options += [f"-D{name}={value}" for name, value in definitions.items()]
    with TemporaryDirectory() as folder:
        library = Path(folder, "native.so")
        try:
            subprocess.run([*command, *options, SOURCE, "-o", library], check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"compile=True needs a kernel, but {command[0]} says: {error.stderr}") from None
        try:
            found = CDLL(str(library))
        except OSError as error:
            raise RuntimeError(
                f"compile=True needs a kernel, but that of {command[0]} does not load: {error}"
            ) from None
    table: list[Any] = [c_int64, c_void_p, c_void_p, c_int]
    found.products.argtypes, found.products.restype = [*table, c_void_p], None
    found.finish.argtypes, found.finish.restype = [*table, c_void_p, c_double, c_double], None
    return found


def _address(numbers: "array[int] | array[float]") -> int:
    return numbers.buffer_info()[0]
