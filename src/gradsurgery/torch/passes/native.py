"""The two passes on the CPU with a C++ kernel, ``native.cpp``: one call for all blocks, whatever their sizes."""

import os
import shlex
import shutil
import subprocess
import sys
from array import array
from collections.abc import Sequence
from ctypes import CDLL, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from gradsurgery.scalar import Scalar
from gradsurgery.torch.passes.blocks import Block
from gradsurgery.torch.scalars import Pairs, compute_dtype

SOURCE = Path(__file__).with_name("native.cpp")

CPP_TYPES = {
    torch.float64: "double",
    torch.float32: "float",
    torch.bfloat16: "c10::BFloat16",
    torch.float16: "c10::Half",
}
HEADERS = {torch.bfloat16: "c10/util/BFloat16.h", torch.float16: "c10/util/Half.h"}


class Native:
    """The two passes with the C++ kernel; see ``Passes``.

    Args:
        blocks: at least one.
        pairs: the inner products to compute.
    """

    def __init__(self, blocks: Sequence[Block], pairs: Pairs) -> None:
        first, self._count = blocks[0], len(pairs)
        average_dtype = first.averages[0].dtype if first.averages else compute_dtype(first.dtype)
        self._library = compile_kernel(len(first.gradients), len(first.averages), pairs, first.dtype, average_dtype)
        sizes = array("q", [block.gradients[0].numel() for block in blocks])
        pointers = array("q", [vector.data_ptr() for block in blocks for vector in (*block[0], *block[1])])
        self._table = len(sizes), _address(sizes), _address(pointers), torch.get_num_threads()
        self._alive = blocks, sizes, pointers  # keeps the tensors alive: the table holds raw pointers

    def products(self) -> Sequence[Scalar]:
        """The inner products."""
        results = array("d", [0.0]) * self._count
        self._library.products(*self._table, _address(results))
        return results

    def combine(
        self, weights: Sequence[Scalar], averaging: Sequence[tuple[Scalar, Scalar]], step: int, *, scaled: bool
    ) -> None:
        """Write the direction and update the averages."""
        blocks, *_ = self._alive
        factors, rules = array("d", weights), array("d", [value for pair in averaging for value in pair])
        cohorts = array("q", [block.cohort for block in blocks])
        positions = array("q", [block.position for block in blocks])
        rounding = _address(cohorts), _address(rules), _address(positions), step
        self._library.combine(*self._table, _address(factors), *rounding)


def compiler_command() -> list[str]:
    """The command of the C++ compiler; raises if there is none."""
    variable = os.environ.get("CXX", "")
    try:
        command = shlex.split(variable) or ["c++"]
    except ValueError as error:
        raise RuntimeError(f"compile=True cannot parse the compiler in CXX, {variable!r}: {error}") from None
    if shutil.which(command[0]) is None:
        raise RuntimeError(
            f"compile=True needs a C++ compiler; there is no {command[0]}: install one, or name it in CXX"
        )
    return command


@cache
def compile_kernel(gradients: int, averages: int, pairs: Pairs, dtype: torch.dtype, average_dtype: torch.dtype) -> CDLL:
    """The kernel for this number of vectors, these inner products, and gradients and averages of these types."""
    definitions = {
        "GRADIENTS": gradients,
        "AVERAGES": averages,
        "COUNT": len(pairs),
        "PAIRS": ",".join(f"{{{a},{b}}}" for a, b in pairs),
        "NUMBER": CPP_TYPES[dtype],
        "WIDE": CPP_TYPES[compute_dtype(dtype)],
        "AVERAGE": CPP_TYPES[average_dtype],
    }
    command = compiler_command()
    # Apple's compilers come without OpenMP
    parallel = ["-fopenmp"] if sys.platform == "linux" else ["-Wno-unknown-pragmas"]
    options = ["-std=c++17", "-O3", "-march=native", "-fPIC", "-shared", *parallel]
    options += [f"-I{Path(torch.__file__).parent / 'include'}"]
    for header in sorted({HEADERS[each] for each in (dtype, average_dtype) if each in HEADERS}):
        options += ["-include", header]
    options += [f"-D{name}={value}" for name, value in definitions.items()]
    with TemporaryDirectory() as folder:
        library = Path(folder, "native.so")
        try:
            subprocess.run([*command, *options, SOURCE, "-o", library], check=True, capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            raise RuntimeError(f"compile=True failed to build its kernel; {command[0]} says: {error.stderr}") from None
        try:
            kernel = CDLL(str(library))
        except OSError as error:
            raise RuntimeError(f"compile=True failed to load the kernel that {command[0]} built: {error}") from None
    table: list[Any] = [c_int64, c_void_p, c_void_p, c_int]
    kernel.products.argtypes, kernel.products.restype = [*table, c_void_p], None
    rule: list[Any] = [c_void_p, c_void_p, c_void_p, c_void_p, c_int64]
    kernel.combine.argtypes, kernel.combine.restype = [*table, *rule], None
    return kernel


def _address(numbers: "array[int] | array[float]") -> int:
    return numbers.buffer_info()[0]
