"""A module of Flax NNX as the lab trains it: parameters and the rest are pytrees, put together where it is called."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import jax
from flax import nnx

Tree = Any
M = TypeVar("M", bound=nnx.Module)


class Functional(Generic[M]):
    """A module taken apart into what is trained, what is carried along, and its graph, which is always the same.

    Args:
        make: makes the module from ``nnx.Rngs``.

    Example:
        >>> linear = Functional(lambda rngs: nnx.Linear(2, 3, rngs=rngs))
        >>> params, extra = linear.init(jax.random.key(0))
        >>> linear(params, extra)(jax.numpy.ones(2)).shape
        (3,)
    """

    def __init__(self, make: Callable[[nnx.Rngs], M]) -> None:
        self._make = make
        self._graph: nnx.GraphDef[M] = nnx.split(nnx.eval_shape(lambda: make(nnx.Rngs(0))), nnx.Param, ...)[0]

    def init(self, key: jax.Array) -> tuple[Tree, Tree]:
        """Parameters, and what the module carries along."""
        params, extra = nnx.state(self._make(nnx.Rngs(key)), nnx.Param, ...)
        return params, extra

    def __call__(self, params: Tree, extra: Tree) -> M:
        """The module with these values."""
        return nnx.merge(self._graph, params, extra, copy=True)  # variables of its own, which it may change
