# mypy: disable-error-code="untyped-decorator, import-untyped"
"""The kernels of ``triton.py``: a program works on one tile of one block.

table      a row for each block: its size, first tile, cohort, position, whether its size and addresses allow loads
           of 16 bytes, and the addresses of its vectors
tiles      the row of each tile
types      the types of the vectors: gradients, main first, then averages
gradients  the number of gradients
wide       the type to compute in
length     the number of elements in a tile
"""

import triton
import triton.language as tl
from triton.language import constexpr

ADDRESSES = constexpr(5)
"""The first column of the table with an address."""


@triton.jit
def products(
    table: tl.tensor,
    tiles: tl.tensor,
    partial: tl.tensor,
    pairs: constexpr,
    types: constexpr,
    wide: constexpr,
    length: constexpr,
) -> None:
    """Write the inner products of a tile to ``partial[tile, pair]``."""
    row = table + tl.load(tiles + tl.program_id(0)) * (ADDRESSES + len(types))
    if tl.load(row + 4):
        multiply_tile(row, partial, pairs, types, wide, length, True)
    else:
        multiply_tile(row, partial, pairs, types, wide, length, False)


@triton.jit
def multiply_tile(
    row: tl.tensor,
    partial: tl.tensor,
    pairs: constexpr,
    types: constexpr,
    wide: constexpr,
    length: constexpr,
    aligned: constexpr,
) -> None:
    """Write the inner products of one tile."""
    offsets, mask = elements(row, length, aligned)
    vectors = load(row, offsets, mask, types, wide, aligned)
    partial += tl.program_id(0).to(tl.int64) * len(pairs)
    for p in tl.static_range(len(pairs)):
        tl.store(partial + p, tl.sum(vectors[pairs[p][0]] * vectors[pairs[p][1]], axis=0))


@triton.jit(do_not_specialize=["step"])
def combine(
    table: tl.tensor,
    tiles: tl.tensor,
    coefficients: tl.tensor,
    step: tl.tensor,
    types: constexpr,
    wide: constexpr,
    gradients: constexpr,
    length: constexpr,
) -> None:
    """Write the direction of a tile and update its averages; ``coefficients`` are weights, then keep and take."""
    row = table + tl.load(tiles + tl.program_id(0)) * (ADDRESSES + len(types))
    if tl.load(row + 4):
        combine_tile(row, coefficients, step, types, wide, gradients, length, True)
    else:
        combine_tile(row, coefficients, step, types, wide, gradients, length, False)


@triton.jit
def combine_tile(
    row: tl.tensor,
    coefficients: tl.tensor,
    step: tl.tensor,
    types: constexpr,
    wide: constexpr,
    gradients: constexpr,
    length: constexpr,
    aligned: constexpr,
) -> None:
    """Write the direction and the averages of one tile."""
    offsets, mask = elements(row, length, aligned)
    vectors = load(row, offsets, mask, types, wide, aligned)
    direction = tl.load(coefficients) * vectors[0]
    for k in tl.static_range(1, len(types)):
        direction += tl.load(coefficients + k) * vectors[k]
    last = pointer(row, gradients - 1, types, aligned)
    tl.store(last + offsets, direction.to(types[gradients - 1]), mask=mask)
    if len(types) > gradients:
        cohort = coefficients + len(types) + 2 * tl.load(row + 2)
        keep, take = tl.load(cohort), tl.load(cohort + 1)
        if take > 0:  # 0 times NaN is NaN
            for k in tl.static_range(gradients, len(types)):
                average = keep * vectors[k] + take * vectors[k - gradients]
                if types[k] == tl.bfloat16:
                    key = stream_key(step, k - gradients, tl.load(row + 3))
                    average = round_to_bfloat16(average.to(tl.float32), key + offsets.to(tl.uint32))
                tl.store(pointer(row, k, types, aligned) + offsets, average, mask=mask)


@triton.jit
def elements(row: tl.tensor, length: constexpr, aligned: constexpr) -> tl.tensor:
    """The indices of a tile's elements in their block, and which of them exist."""
    size = tl.load(row)
    if aligned:
        size = tl.multiple_of(size, 8)
    offsets = (tl.program_id(0) - tl.load(row + 1)) * length + tl.arange(0, length)
    return offsets, offsets < size


@triton.jit
def pointer(row: tl.tensor, k: constexpr, types: constexpr, aligned: constexpr) -> tl.tensor:
    """The pointer to vector k of a block."""
    address = tl.load(row + ADDRESSES + k).to(tl.pointer_type(types[k]))
    return tl.multiple_of(address, 16) if aligned else address


@triton.jit
def load(
    row: tl.tensor, offsets: tl.tensor, mask: tl.tensor, types: constexpr, wide: constexpr, aligned: constexpr
) -> tl.tensor:
    """The elements of each vector in the type to compute in; 0 where there is none."""
    vectors = ()
    for k in tl.static_range(len(types)):
        vector = tl.load(pointer(row, k, types, aligned) + offsets, mask=mask, other=0.0)
        vectors += (vector.to(wide),)  # type: ignore[assignment]
    return vectors


@triton.jit
def round_to_bfloat16(values: tl.tensor, counters: tl.tensor) -> tl.tensor:
    """Stochastic rounding of float32, as in ``gradsurgery.rounding``."""
    bits = values.to(tl.uint32, bitcast=True)
    bits = tl.where(values == values, bits + (mix(counters) >> 16), bits)
    return (bits >> 16).to(tl.uint16).to(tl.bfloat16, bitcast=True)


@triton.jit
def stream_key(step: tl.tensor, level: tl.tensor, position: tl.tensor) -> tl.tensor:
    """The key of one average of one parameter in one step."""
    key = mix(step.to(tl.uint32) + 0x9E3779B9)
    key = mix(key + level + 0x9E3779B9)
    return mix(key + position.to(tl.uint32) + 0x9E3779B9)


@triton.jit
def mix(x: tl.tensor) -> tl.tensor:
    """The finaliser of MurmurHash3."""
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)
