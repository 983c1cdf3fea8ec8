"""Places arrays on several devices: batches are split over all of them, parameters are copied to each.

    placement = Placement(jax.devices(), sharded=True)

If sharded, parameters, averages and optimiser state are split as well (fully sharded data parallel), each along the
longest axis that the number of devices divides. XLA adds the communication; the surgery needs no change, because its
inner products are sums like any other.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Tree = Any


class Placement:
    """Places state and batches on all devices that take part; if sharded, the state is split, else each has a copy."""

    def __init__(self, devices: Sequence[jax.Device], *, sharded: bool = False) -> None:
        self._mesh = Mesh(np.asarray(devices), ("data",))
        self._count, self._sharded = len(devices), sharded

    def place_state(self, tree: Tree) -> Tree:
        """Place the state of a run; inside jit, constrain it to stay where it is."""
        return self._place(tree, lambda shape: _longest_axis(shape, self._count) if self._sharded else None)

    def place_batches(self, tree: Tree, axis: int | None) -> Tree:
        """Split batches along an axis; copy what cannot be split, and everything if the axis is None."""

        def divisible(shape: Sequence[int]) -> int | None:
            return axis if axis is not None and axis < len(shape) and shape[axis] % self._count == 0 else None

        return jax.device_put(tree) if self._count == 1 else self._place(tree, divisible)

    def place_local_batch(self, tree: Tree) -> Tree:
        """Split a batch along its first axis, given this process's slice of it."""
        if jax.process_count() == 1:
            return self.place_batches(tree, axis=0)
        sharding = NamedSharding(self._mesh, PartitionSpec("data"))  # type: ignore[no-untyped-call]
        return jax.make_array_from_process_local_data(sharding, tree)  # type: ignore[no-untyped-call]

    def _place(self, tree: Tree, axis_of: Callable[[Sequence[int]], int | None]) -> Tree:
        def place(leaf: Any) -> Any:
            axis = axis_of(leaf.shape)
            names = [] if axis is None else [*[None] * axis, "data"]
            sharding = NamedSharding(self._mesh, PartitionSpec(*names))  # type: ignore[no-untyped-call]
            if isinstance(leaf, jax.core.Tracer):
                return jax.lax.with_sharding_constraint(leaf, sharding)  # type: ignore[no-untyped-call]
            if sharding.is_fully_addressable:
                return jax.device_put(leaf, sharding)
            return jax.make_array_from_callback(leaf.shape, sharding, lambda index: np.asarray(leaf[index]))

        return tree if self._count == 1 else jax.tree.map(place, tree)


def _longest_axis(shape: Sequence[int], count: int) -> int | None:
    """The longest axis that ``count`` devices can share."""
    divisible = [axis for axis, size in enumerate(shape) if size % count == 0 and size > 0]
    return max(divisible, key=lambda axis: shape[axis], default=None)
