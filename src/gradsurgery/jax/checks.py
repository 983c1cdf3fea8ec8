"""What callers hand in, checked at trace time: one sentence that says what was wanted and what came."""

import sys
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import optax

Tree = Any

_CALL = "update(main_grads, state, params, aux=aux_grads)"


def auxiliary(main: Tree, aux: Any) -> tuple[Tree, ...]:
    """The auxiliary gradients as a tuple of pytrees, each like ``main``; ``aux`` is one such pytree or several."""
    if aux is None:
        raise TypeError(f"surgery needs the gradients of the auxiliary losses: call {_CALL}, but aux is missing")
    _check_types(main, "main")
    if _same_structure(aux, main):
        aux = (aux,)
    elif not isinstance(aux, tuple | list):
        raise ValueError(_structure(main, aux, "aux"))
    if not aux:
        raise ValueError("aux is one pytree of gradients, or a tuple with one for each auxiliary loss, but it is empty")
    for index, tree in enumerate(aux):
        _check_alike(main, tree, "aux" if len(aux) == 1 else f"aux[{index}]")
    return tuple(aux)


def refuse_multi_steps() -> None:
    """Raise if an ``optax.MultiSteps`` is what calls: it averages main's gradients but hands on the last aux alone."""
    frame: FrameType | None = sys._getframe()
    while frame:
        if frame.f_code is optax.MultiSteps.update.__code__:
            raise ValueError(
                "optax.MultiSteps keeps the auxiliary gradients of the last micro-batch only, so surgery does not run "
                "inside it: use gradsurgery.jax.accumulate(optimiser, every=...) instead"
            )
        frame = frame.f_back


def _check_alike(main: Tree, tree: Tree, name: str) -> None:
    if not _same_structure(tree, main):
        raise ValueError(_structure(main, tree, name))
    _check_types(tree, name)
    for (path, wanted), leaf in zip(jax.tree.leaves_with_path(main), jax.tree.leaves(tree), strict=True):
        if jnp.shape(leaf) != jnp.shape(wanted):
            raise ValueError(
                f"{name}{jax.tree_util.keystr(path)} has the shape of main's gradient, {jnp.shape(wanted)}, "
                f"but got {jnp.shape(leaf)}"
            )


def _same_structure(tree: Tree, main: Tree) -> bool:
    structure: Any = jax.tree.structure(tree)
    return bool(structure == jax.tree.structure(main))


def _check_types(tree: Tree, name: str) -> None:
    for path, leaf in jax.tree.leaves_with_path(tree):
        dtype = getattr(leaf, "dtype", None) or jnp.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.inexact):
            raise TypeError(
                f"gradients are real or complex numbers, but {name}{jax.tree_util.keystr(path)} is of type {dtype}"
            )


def _structure(main: Tree, tree: Tree, name: str) -> str:
    return (
        f"{name} has the tree structure of main's gradients, {jax.tree.structure(main)}, "
        f"but got {jax.tree.structure(tree)}"
    )
