"""Blocks of random numbers, and the two passes over them in numpy."""

from collections import namedtuple

import numpy as np
import torch

from gradsurgery.rounding import round_to_bfloat16, stream_key
from gradsurgery.torch.passes import Block
from tests.device import DEVICE

Case = namedtuple("Case", "shapes gradients averages dtype average_dtype", defaults=[torch.float32, torch.float32])

SHAPES = [(3, 2), (), (0, 3), (257, 131), (7,), (2, 6, 2, 2), (64, 64)]
"""Empty, tiny, odd, one large enough not to be merged, and one that fills a tile."""


def make_blocks(case, seed=0):
    """Blocks of alternating cohorts; those with four dimensions are channels-last, and those with one are not aligned.

    All numbers are multiples of 1/16, so that every order of operations gives the same numbers in float32.
    """
    generator = torch.Generator("cpu").manual_seed(seed)

    def vector(shape, dtype):
        tensor = torch.randn(shape, generator=generator, device="cpu").mul(16).round().div(16).to(DEVICE, dtype)
        if len(shape) == 1:
            return torch.cat([tensor[:1], tensor])[1:]
        return tensor.to(memory_format=torch.channels_last) if len(shape) == 4 else tensor

    return [
        Block(
            [vector(shape, case.dtype) for _ in range(case.gradients)],
            [vector(shape, case.average_dtype) for _ in range(case.averages)],
            cohort=index % 2,
            position=10 + index,
        )
        for index, shape in enumerate(case.shapes)
    ]


def in_memory_order(tensor):
    """The elements as they lie in memory, in float64."""
    return torch.as_strided(tensor, (tensor.numel(),), (1,), tensor.storage_offset()).double().cpu().numpy().copy()


def copies(blocks):
    """For each block, its vectors in float64."""
    return [[in_memory_order(vector) for vector in block.vectors] for block in blocks]


def expected_products(blocks, pairs):
    return [sum(vectors[a] @ vectors[b] for vectors in copies(blocks)) for a, b in pairs]


def expected_step(blocks, weights, averaging, step):
    """The direction and the averages of each block, rounded as the specification says."""
    for block, vectors in zip(blocks, copies(blocks), strict=True):
        keep, take = averaging[block.cohort]
        count = len(block.gradients)
        direction = sum(weight * vector for weight, vector in zip(weights, vectors, strict=True))
        averages = [
            keep * average + take * gradient if take > 0 else average
            for average, gradient in zip(vectors[count:], vectors, strict=False)
        ]
        if block.averages and block.averages[0].dtype == torch.bfloat16:
            keys = [stream_key(step, level, block.position) for level in range(len(averages))]
            pairs = zip(averages, keys, strict=True)
            averages = [round_to_bfloat16(average.astype(np.float32), key) for average, key in pairs]
        yield direction, averages
