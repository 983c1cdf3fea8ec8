"""Checks of arguments at trace time. Each error says in one sentence what was expected and what was passed."""

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import optax

from gradsurgery.jax.tree import Tree, Trees
from gradsurgery.method import Method

_CALL = "update(main_grads, state, params, aux=aux_grads)"


def check_average_dtype(average_dtype: Any) -> None:
    """Raise unless averages can be kept in this type."""
    if average_dtype not in (None, jnp.bfloat16, "bfloat16"):
        raise ValueError(f"average_dtype must be bfloat16, or None for float32 or wider; got {average_dtype!r}")


def check_parameters(params: Tree, average_dtype: Any = None) -> None:
    """Raise unless every leaf is an array of real or complex numbers, whose averages can be kept in this type."""
    _check_leaves(params, "params", "parameters")
    for path, leaf in jax.tree.leaves_with_path(params):
        if average_dtype is not None and jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            raise TypeError(
                "average_dtype must be None for complex parameters; "
                f"got bfloat16, and params{jax.tree_util.keystr(path)} is of type {leaf.dtype}"
            )


def as_aux_tuple(main: Tree, aux: Any) -> Trees:
    """The auxiliary gradients as a tuple of pytrees, each with the structure and shapes of ``main``.

    If ``optax.masked`` or ``optax.partition`` has masked main but not aux, the same mask is applied to aux.
    """
    if aux is None:
        raise TypeError(f"surgery needs the gradients of the auxiliary losses, but aux is missing: call {_CALL}")
    _check_leaves(main, "main")
    single = _mask_like(main, aux)
    if _same_structure(single, main):
        aux = (single,)
    elif isinstance(aux, tuple | list):
        aux = tuple(_mask_like(main, tree) for tree in aux)
    else:
        raise ValueError(_structure_error(main, aux, "aux"))
    if not aux:
        raise ValueError("aux is one pytree of gradients, or a tuple with one for each auxiliary loss, but it is empty")
    for index, tree in enumerate(aux):
        _check_alike(main, tree, "aux" if len(aux) == 1 else f"aux[{index}]")
    return aux


def check_state(method: Method, state: Any, main: Tree, average_dtype: Any) -> None:
    """Raise unless the state was made for this method, this type and parameters with the structure of ``main``."""
    expected, got = (method.averages, len(method.memory)), (len(state.averages), len(state.memory))
    if expected != got:
        raise ValueError(
            f"the state of {method!r} must have {_describe_counts(*expected)}; got one with {_describe_counts(*got)}: "
            "it was made for another method"
        )
    for number in (state.mass, *state.memory):
        if _is_narrow(number):
            raise TypeError(
                f"the numbers in the state must be float32 or wider; got {number.dtype}: it was cast, so restore it in "
                "the types of tx.init(params)"
            )
    for average in state.averages:
        if not _same_structure(average, main):
            raise ValueError(
                "the averages in the state must have the tree structure of main's gradients, "
                f"{jax.tree.structure(main)}; got {jax.tree.structure(average)}"
            )
        for (path, gradient), leaf in zip(jax.tree.leaves_with_path(main), jax.tree.leaves(average), strict=True):
            if leaf.shape != gradient.shape:
                raise ValueError(
                    f"an average has the shape of its gradient, {gradient.shape} for main{jax.tree_util.keystr(path)}, "
                    f"but the state has one of shape {leaf.shape}: it was made for other parameters"
                )
            fits = leaf.dtype == jnp.bfloat16 if average_dtype else not _is_narrow(leaf)
            if not fits:
                raise TypeError(
                    f"the averages in the state must be {'bfloat16' if average_dtype else 'float32 or wider'}; "
                    f"got {leaf.dtype}: it was cast, or made with another average_dtype"
                )


def refuse_wrappers() -> None:
    """Raise inside a transformation of optax that does not handle ``aux``."""
    for name in _optax_callers():
        if name == "MultiSteps.update":
            raise ValueError(
                "optax.MultiSteps keeps the auxiliary gradients of the last micro-batch only, so surgery does not run "
                "inside it: use gradsurgery.jax.accumulate(optimiser, every=...) instead"
            )
        if name == "apply_if_finite.<locals>.update":
            raise ValueError(
                "optax.apply_if_finite does not look at aux, where a NaN would spoil the parameters, so surgery does "
                "not run inside it: use optax.chain(surgery(method), optax.apply_if_finite(optimiser, ...)) instead"
            )
        if name == "mechanize.<locals>.update_fn":
            raise ValueError(
                "optax.contrib.mechanize learns its scale from main's gradients alone, so surgery does not run inside "
                "it: use optax.chain(surgery(method), optax.contrib.mechanize(optimiser)) instead"
            )
        if name in ("lookahead.<locals>.init_fn", "sam.<locals>.init_fn"):
            wrapper = name.partition(".")[0]
            raise ValueError(
                f"{wrapper} of optax does not pass aux on, so surgery does not run inside it: call direction, state = "
                f"surgery.update(main_grads, state, aux=aux_grads) first, and give {wrapper} the direction"
            )


def _optax_callers() -> Iterator[str]:
    """The qualified names of the functions of optax on the call stack."""
    frame: FrameType | None = sys._getframe()
    while frame:
        if frame.f_globals.get("__name__", "").startswith("optax."):
            yield frame.f_code.co_qualname
        frame = frame.f_back


def _check_alike(main: Tree, tree: Tree, name: str) -> None:
    if not _same_structure(tree, main):
        raise ValueError(_structure_error(main, tree, name))
    _check_leaves(tree, name)
    for (path, expected), leaf in zip(jax.tree.leaves_with_path(main), jax.tree.leaves(tree), strict=True):
        if leaf.shape != expected.shape:
            raise ValueError(
                f"{name}{jax.tree_util.keystr(path)} must have the shape of main's gradient, {expected.shape}; "
                f"got {leaf.shape}"
            )


def _check_leaves(tree: Tree, name: str, kind: str = "gradients") -> None:
    for path, leaf in jax.tree.leaves_with_path(tree):
        place = f"{name}{jax.tree_util.keystr(path)}"
        if not hasattr(leaf, "dtype"):
            raise TypeError(f"{kind} are arrays, but {place} is of type {type(leaf).__name__}")
        if not jnp.issubdtype(leaf.dtype, jnp.inexact):
            raise TypeError(f"{kind} are real or complex numbers, but {place} is of type {leaf.dtype}")


def _same_structure(tree: Tree, other: Tree) -> bool:
    structure: Any = jax.tree.structure(tree)
    return bool(structure == jax.tree.structure(other))


def _structure_error(main: Tree, tree: Tree, name: str) -> str:
    return (
        f"{name} must have the tree structure of main's gradients, {jax.tree.structure(main)}; "
        f"got {jax.tree.structure(tree)}"
    )


def _mask_like(main: Tree, tree: Tree) -> Tree:
    """The tree, masked where optax has masked main; unchanged if its structure does not fit."""

    def is_mask(node: Any) -> bool:
        return isinstance(node, optax.MaskedNode)

    try:
        return jax.tree.map(lambda part, other: part if is_mask(part) else other, main, tree, is_leaf=is_mask)
    except ValueError:
        return tree


def _is_narrow(leaf: jax.Array) -> bool:
    return bool(jnp.finfo(leaf.dtype).bits < 32)  # type: ignore[no-untyped-call]


def _describe_counts(averages: int, memory: int) -> str:
    return f"{averages} average{'s' * (averages != 1)} and {memory} number{'s' * (memory != 1)} in memory"
