"""Where arrays live when there are several devices: batches are split over all of them, parameters are on each.

    place = Placement(jax.devices(), sharded=True)

Sharded, parameters, averages and optimiser state are split as well (fully sharded data parallel): each along its
longest axis that the number of devices divides. XLA adds what communication this needs; the surgery knows nothing of
it, as its inner products are sums like any other.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Tree = Any


class Placement:
    """Puts arrays on devices.

    Args:
        devices: all that take part.
        sharded: whether each holds a part of the state, and not all of it.
    """

    def __init__(self, devices: Sequence[jax.Device], *, sharded: bool = False) -> None:
        self._mesh = Mesh(np.asarray(devices), ("data",))
        self._count, self._sharded = len(devices), sharded

    def state(self, tree: Tree) -> Tree:
        """A run's state on the devices; inside jit, a hint to leave it there."""
        return self._placed(tree, lambda shape: _longest(shape, self._count) if self._sharded else None)

    def batches(self, tree: Tree, axis: int | None) -> Tree:
        """Batches split along an axis; with None, or where that is not possible, a copy on each device."""

        def fitting(shape: Sequence[int]) -> int | None:
            return axis if axis is not None and axis < len(shape) and shape[axis] % self._count == 0 else None

        return jax.device_put(tree) if self._count == 1 else self._placed(tree, fitting)

    def own(self, tree: Tree) -> Tree:
        """A batch split along its first axis, of which this process has its own part (all of it, if it is alone)."""
        if jax.process_count() == 1:
            return self.batches(tree, axis=0)
        sharding = NamedSharding(self._mesh, PartitionSpec("data"))  # type: ignore[no-untyped-call]
        return jax.make_array_from_process_local_data(sharding, tree)  # type: ignore[no-untyped-call]

    def _placed(self, tree: Tree, axis_of: Callable[[Sequence[int]], int | None]) -> Tree:
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


def _longest(shape: Sequence[int], count: int) -> int | None:
    """The longest axis that so many devices can share."""
    fitting = [axis for axis, size in enumerate(shape) if size % count == 0 and size > 0]
    return max(fitting, key=lambda axis: shape[axis], default=None)
