"""Flax NNX modules as pure functions: parameters and other state are pytrees, merged into a module for each call."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import jax
from flax import nnx

Tree = Any
M = TypeVar("M", bound=nnx.Module)


class Functional(Generic[M]):
    """A module split into parameters, other state such as batch statistics, and its graph, which never changes.

    Args:
        make: creates the module from ``nnx.Rngs``.

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
        """Return initial parameters and other state."""
        params, extra = nnx.state(self._make(nnx.Rngs(key)), nnx.Param, ...)
        return params, extra

    def __call__(self, params: Tree, extra: Tree) -> M:
        """Return the module with these values."""
        return nnx.merge(self._graph, params, extra, copy=True)  # a copy: calling the module may update its state
